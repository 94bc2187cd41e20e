#include "tests/support/stable_port.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <stdexcept>

namespace tests {

uint16_t StablePort() {
  static std::atomic<uint32_t> next = static_cast<uint32_t>(getpid()) * 61;
  for (int i = 0; i < 10'000; ++i) {
    const auto port = static_cast<uint16_t>(10'000 + ++next % 10'000);
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_ANY);
    address.sin_port = htons(port);
    const bool free = bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0;
    close(fd);
    if (free) return port;
  }
  throw std::runtime_error("no free port");
}

}  // namespace tests
