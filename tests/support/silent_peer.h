// A server on loopback that keeps its connections, reads nothing and sends nothing, not even in TLS.
#pragma once

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>

namespace tests {

class SilentPeer {
 public:
  SilentPeer() : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof address;
    EXPECT_EQ(bind(fd_, reinterpret_cast<sockaddr*>(&address), length), 0);
    EXPECT_EQ(listen(fd_, 64), 0);
    getsockname(fd_, reinterpret_cast<sockaddr*>(&address), &length);
    port_ = ntohs(address.sin_port);
  }
  ~SilentPeer() { close(fd_); }
  SilentPeer(const SilentPeer&) = delete;

  uint16_t port() const { return port_; }

  // Number of connections that wait to be accepted.
  uint32_t callers() const {
    tcp_info info{};
    socklen_t length = sizeof info;
    EXPECT_EQ(getsockopt(fd_, IPPROTO_TCP, TCP_INFO, &info, &length), 0);
    return info.tcpi_unacked;
  }

 private:
  const int fd_;
  uint16_t port_ = 0;
};

}  // namespace tests
