// Server: a plain HTTP server over one loop: the admin listener, the demo engine, a test's upstream. The
// proxy has a pipeline of its own over the same ServerConnection.
//
// Thread: the loop's. Close() stops accepting and ends idle connections; running exchanges end by themselves,
// or with CloseAll().
#pragma once

#include <absl/status/statusor.h>

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "gateway/net/http/listener.h"
#include "gateway/net/http/server_connection.h"
#include "gateway/net/loop.h"
#include "gateway/net/transport.h"

namespace gateway::net::http {

using Headers = std::vector<std::pair<std::string, std::string>>;

// One request, read whole, and its answer: Send(), or Start(), Write()…, Finish(), or StartSized(), WriteSized()….
class Exchange {
 public:
  Exchange(ServerConnection& connection, std::string_view address)
      : connection_(connection), address_(address) {}

  const Head& head() const { return connection_.head(); }
  std::string_view address() const { return address_; }  // of the peer
  std::string_view method() const { return head().method_text; }
  std::string_view path() const;   // of the target, still percent-encoded
  std::string_view query() const;  // behind the '?'
  std::string_view body() const { return connection_.body(); }

  // A whole answer with Content-Length; only its head for HEAD. False when the client has left.
  Task<bool> Send(int status, const Headers& headers, std::string_view body);

  // A streamed answer, chunked.
  Task<bool> Start(int status, const Headers& headers);
  Task<bool> Write(std::string_view piece);
  Task<bool> Finish();

  // A streamed answer of `length` bytes, which pieces of WriteSized() must make up. HEAD: its head alone.
  Task<bool> StartSized(int status, const Headers& headers, uint64_t length);
  Task<bool> WriteSized(std::string_view piece);

  // Called once if the client leaves before the answer is complete.
  void OnGone(std::function<void()> fn) { connection_.WatchPeer(std::move(fn)); }
  bool gone() const { return connection_.peer_gone(); }

  // Ends the connection after this exchange; Reset makes the peer see an error.
  void CloseAfter() { close_ = true; }
  void Reset();
  ServerConnection& connection() { return connection_; }

 private:
  friend class Server;
  bool bodiless() const { return connection_.is_head_request(); }

  ServerConnection& connection_;
  const std::string_view address_;
  bool answered_ = false;
  bool close_ = false;
};

std::string_view ReasonPhrase(int status);

class Server final : private Listener::Handler {
 public:
  struct Refusal {
    std::string content_type;
    std::string body;
    Headers headers{};  // further ones
  };
  struct Options {
    Acceptor::Options acceptor;
    ConnectionLimits limits;
    std::string server_name;     // of the Server header; none when empty
    size_t max_connections = 0;  // as in Listener::SetMaxConnections
    // The most bytes that the body of one request may have; default: limits.body_bytes.
    std::function<size_t(const Head&)> body_limit;
    // The answer to a request that could not be read; default: the reason phrase as plain text.
    std::function<Refusal(int status)> refuse;
    // Called after a connection has ended that was handed on by the acceptor; may be absent.
    std::function<void()> on_closed;
  };
  using Handler = std::function<Task<void>(Exchange&)>;

  static absl::StatusOr<std::unique_ptr<Server>> Listen(Loop& loop, Options options, Handler handler);

  uint16_t port() const { return port_; }
  void Close() { listener_.Drain(); }
  void CloseAll() { listener_.CloseAll(); }
  size_t connections() const { return listener_.connections(); }

 private:
  Server(Loop& loop, Options options, Handler handler);
  Task<bool> Serve(Listener::Client& client, ServerConnection::Status head) override;
  void OnClosed(const Listener::Client&) override {
    if (options_.on_closed) options_.on_closed();
  }

  const Options options_;
  const Handler handler_;
  Listener listener_;
  uint16_t port_ = 0;
};

}  // namespace gateway::net::http
