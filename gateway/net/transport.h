// Transport: makes sockets and TLS streams. The only room that instantiates Asio's socket and SSL templates.
//
// Thread: the shard's. Failures are error codes. TCP_NODELAY is set on every connection.
#pragma once

#include <absl/status/statusor.h>

#include <functional>
#include <memory>
#include <string>

#include "gateway/net/stream.h"
#include "gateway/net/task.h"
#include "gateway/net/tls.h"
#include "gateway/net/watchdog.h"

namespace gateway::net {

// How to reach a peer. TLS when `tls` is set. With `socket`, the path of a Unix socket, host and port only
// name the peer.
struct Remote {
  std::string host;
  std::string port;
  std::shared_ptr<const TlsContext> tls;
  std::string server_name;  // for SNI and verification; host when empty
  std::string socket = {};
};

struct ConnectResult {
  ErrorCode error;
  std::unique_ptr<Stream> stream;
};

// Aborts the operation that it currently refers to.
class Abortable {
 public:
  virtual void Abort() = 0;

 protected:
  ~Abortable() = default;
};

class Resolver;

// Resolves, connects, shakes hands. Lives until Connect() has returned; Abort() makes it return early in
// every phase. A numeric address is not looked up.
class Connector final : public Abortable {
 public:
  explicit Connector(IoContext& io);  // names by Resolver::OfProcess()
  Connector(IoContext& io, Resolver& resolver);
  ~Connector();
  Task<ConnectResult> Connect(const Remote& remote);
  void Abort() override;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Listens on one address with SO_REUSEPORT and hands on each connection when it can be read, after the TLS
// handshake.
class Acceptor {
 public:
  struct Options {
    std::string address;                                     // 127.0.0.1:8080, [::1]:8080, :8080
    std::function<std::shared_ptr<const TlsContext>()> tls;  // asked at each accept; absent: plain
    conf::Duration handshake_timeout = std::chrono::seconds(10);
    // Asked before the handshake with the peer's address; false closes the connection at once.
    std::function<bool(const std::string& ip)> admit;
    // Called for a connection that was admitted and ended before it was handed on.
    std::function<void(const std::string& ip)> on_end;
    int backlog = 4096;
  };
  using OnStream = std::function<void(std::unique_ptr<Stream>)>;

  static absl::StatusOr<std::unique_ptr<Acceptor>> Listen(IoContext& io, Watchdog& watchdog, TaskGroup& tasks,
                                                          Options options, OnStream on_stream);
  virtual ~Acceptor() = default;
  virtual uint16_t port() const = 0;
  virtual void Close() = 0;
};

// No socket of this machine listens there, on any IPv4 address: a server could now. Any thread.
bool PortIsFree(uint16_t port);

}  // namespace gateway::net
