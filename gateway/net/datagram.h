// Datagram: a connected socket whose messages are sent whole or not at all: UDP, or a Unix socket such as
// /dev/log. Send never waits. One thread at a time; closed when destroyed.
#pragma once

#include <absl/status/statusor.h>

#include <string>
#include <string_view>
#include <utility>

#include "conf/time.h"

namespace gateway::net {

class Datagram {
 public:
  static absl::StatusOr<Datagram> ToUnix(const std::string& path);
  // Resolves names, which may block.
  static absl::StatusOr<Datagram> ToUdp(const std::string& host, const std::string& port);

  Datagram(Datagram&& other) noexcept : fd_(std::exchange(other.fd_, -1)), peer_(std::move(other.peer_)) {}
  Datagram& operator=(Datagram&& other) noexcept;
  ~Datagram();

  // kResourceExhausted while the peer's queue is full; kUnavailable when it is gone; kInvalidArgument when
  // the message is too long for the socket.
  absl::Status Send(std::string_view message) const;
  // Blocks until the peer's queue has room, the peer is gone, or the time is over.
  void WaitForRoom(conf::Duration patience) const;

 private:
  Datagram(int fd, std::string peer) : fd_(fd), peer_(std::move(peer)) {}

  int fd_;
  std::string peer_;
};

}  // namespace gateway::net
