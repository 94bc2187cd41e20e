// Transport: makes sockets and TLS streams. The only room that instantiates Asio's socket and SSL templates.
//
// Thread: the shard's. Failures are error codes. TCP_NODELAY is set on every connection.
#pragma once

#include <absl/status/statusor.h>

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "gateway/net/fd.h"
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

// One listening socket of this process, which no other process can share. Several acceptors may take its
// connections, in turn: each accepts, and passes a connection on to the acceptor whose turn it is. Any
// thread.
class ListeningSocket {
 public:
  // 127.0.0.1:8080, [::1]:8080, :8080. Unavailable: another process has the port, which the error names.
  static absl::StatusOr<std::shared_ptr<ListeningSocket>> Open(const std::string& address,
                                                               int backlog = 4096);

  uint16_t port() const { return port_; }
  int fd() const { return socket_.get(); }

  using Take = std::function<void(Fd, std::string ip)>;  // any thread
  size_t Join(Take take);
  void Leave(size_t member);
  // The shard whose turn it is; absent when it is the caller's turn, or no shard is left.
  Take Next(size_t caller);

 private:
  ListeningSocket(Fd socket, uint16_t port) : socket_(std::move(socket)), port_(port) {}

  const Fd socket_;
  const uint16_t port_;
  std::mutex mutex_;
  std::vector<Take> members_;  // those that have left are empty
  size_t turn_ = 0;
};

// Hands on each connection of a listener once it is ready to be read, TLS handshake included.
class Acceptor {
 public:
  struct Options {
    std::string address;                                     // of a listener of its own, ...
    std::shared_ptr<ListeningSocket> socket;                 // or one that it shares
    bool accepts = true;                                     // false: it takes only what others hand to it
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

// Both ends of a connection inside this process, which other processes cannot reach. Any thread.
absl::StatusOr<std::pair<Fd, Fd>> ConnectedPair();
// The stream of one end; `peer` becomes its PeerAddress(). The loop's thread.
absl::StatusOr<std::unique_ptr<Stream>> StreamOf(IoContext& io, Fd end, std::string peer);

// No socket of this machine listens there, on any IPv4 address: a server could now. Any thread.
bool PortIsFree(uint16_t port);

}  // namespace gateway::net
