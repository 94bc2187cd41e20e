// A port of loopback without a listener that nothing else is given during its lifetime: it is bound, so only
// a server that asks for exactly this port, and reuses addresses, can listen there, as often as it likes.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>

namespace tests {

class FreePort {
 public:
  FreePort() {
    const int on = 1;
    setsockopt(held_, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof address;
    if (bind(held_, reinterpret_cast<sockaddr*>(&address), length) != 0) std::abort();
    getsockname(held_, reinterpret_cast<sockaddr*>(&address), &length);
    number_ = ntohs(address.sin_port);
  }
  ~FreePort() { close(held_); }
  FreePort(const FreePort&) = delete;
  FreePort& operator=(const FreePort&) = delete;

  uint16_t number() const { return number_; }

 private:
  int held_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  uint16_t number_ = 0;
};

}  // namespace tests
