// Listener: the accept loop of an HTTP server: accepts connections and reads the heads of their requests, one
// after another; the handler answers each request.
//
// Owner: the server, which outlives the tasks of its connections. Thread: the loop's.
#pragma once

#include <absl/status/statusor.h>

#include <list>
#include <memory>
#include <string>
#include <unordered_set>
#include <vector>

#include "gateway/net/http/server_connection.h"
#include "gateway/net/loop.h"
#include "gateway/net/transport.h"

namespace gateway::net::http {

class Listener {
 public:
  struct Client {
    Client(Loop& loop, std::unique_ptr<Stream> stream, const ConnectionLimits& limits)
        : address(stream->PeerAddress()), connection(loop, std::move(stream), limits) {}
    const std::string address;
    ServerConnection connection;
    bool idle = true;  // between requests
  };

  class Handler {
   public:
    virtual ~Handler() = default;
    virtual void OnOpen() {}
    virtual void OnClosed(const Client&) {}
    // Answers the request whose head was read, with any status but kClosed. False ends the connection.
    virtual Task<bool> Serve(Client& client, ServerConnection::Status head) = 0;
  };

  // Connections refer to `limits`, so that a change reaches open ones, too.
  Listener(Loop& loop, const ConnectionLimits& limits, Handler& handler)
      : loop_(loop), limits_(limits), handler_(handler) {}

  // Beyond this number the connection that has waited longest for a request is closed for each new one; 0: any
  // number. Connections on which a request is answered are not closed. Before the first Listen.
  void SetMaxConnections(size_t most) { max_connections_ = most; }

  // Listens on one more address; returns its port.
  absl::StatusOr<uint16_t> Listen(Acceptor::Options options);

  // Accepts no more connections and ends the idle ones; the others end after their request.
  void Drain();
  // Ends all connections.
  void CloseAll();

  bool draining() const { return draining_; }
  size_t connections() const { return clients_.size(); }

 private:
  Task<void> Serve(std::unique_ptr<Stream> stream);
  void CloseOneWaiting();

  Loop& loop_;
  const ConnectionLimits& limits_;
  Handler& handler_;
  std::vector<std::unique_ptr<Acceptor>> acceptors_;
  std::unordered_set<Client*> clients_;
  std::list<Client*> waiting_;  // of these, those without a request, the longest first; null: it is closed
  size_t max_connections_ = 0;
  bool draining_ = false;
};

}  // namespace gateway::net::http
