#include "gateway/net/datagram.h"

#include <fmt/format.h>
#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <system_error>

namespace gateway::net {
namespace {

std::string ErrorText() {
  return std::generic_category().message(errno);
}

absl::Status Unreachable(const std::string& peer) {
  return absl::UnavailableError(fmt::format("{}: {}", peer, ErrorText()));
}

}  // namespace

absl::StatusOr<Datagram> Datagram::ToUnix(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof(address.sun_path)) {
    return absl::InvalidArgumentError(
        fmt::format("socket path {}: must have 1 to {} bytes", path, sizeof(address.sun_path) - 1));
  }
  std::memcpy(address.sun_path, path.data(), path.size());
  Datagram socket(::socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), path);
  if (socket.fd_ < 0 ||
      connect(socket.fd_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    return Unreachable(path);
  }
  return socket;
}

absl::StatusOr<Datagram> Datagram::ToUdp(const std::string& host, const std::string& port) {
  const std::string peer = fmt::format("udp {}:{}", host, port);
  addrinfo hints{};
  hints.ai_socktype = SOCK_DGRAM;
  addrinfo* found = nullptr;
  if (const int error = getaddrinfo(host.c_str(), port.c_str(), &hints, &found); error != 0) {
    return absl::UnavailableError(fmt::format("{}: {}", peer, gai_strerror(error)));
  }
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owned(found, freeaddrinfo);
  for (const addrinfo* entry = found; entry; entry = entry->ai_next) {
    Datagram socket(::socket(entry->ai_family, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), peer);
    if (socket.fd_ >= 0 && connect(socket.fd_, entry->ai_addr, entry->ai_addrlen) == 0) return socket;
  }
  return Unreachable(peer);
}

Datagram& Datagram::operator=(Datagram&& other) noexcept {
  std::swap(fd_, other.fd_);
  std::swap(peer_, other.peer_);
  return *this;
}

Datagram::~Datagram() {
  if (fd_ >= 0) close(fd_);
}

absl::Status Datagram::Send(std::string_view message) const {
  if (send(fd_, message.data(), message.size(), MSG_NOSIGNAL) >= 0) return absl::OkStatus();
  if (errno == EMSGSIZE) {
    return absl::InvalidArgumentError(
        fmt::format("{}: a message of {} bytes is too long for the socket", peer_, message.size()));
  }
  if (errno == EAGAIN || errno == EWOULDBLOCK || errno == ENOBUFS) {
    return absl::ResourceExhaustedError(fmt::format("{}: its queue is full", peer_));
  }
  return Unreachable(peer_);
}

void Datagram::WaitForRoom(conf::Duration patience) const {
  pollfd writable{fd_, POLLOUT, 0};
  const auto wait = std::chrono::ceil<std::chrono::milliseconds>(patience);
  poll(&writable, 1, static_cast<int>(wait.count()));
}

}  // namespace gateway::net
