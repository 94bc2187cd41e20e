// A range of ports for a test's launcher. During its lifetime no other test has it, in this process or in
// another; it is below 30,000, where the members of gangs meet, and below what the system gives to connections.
#pragma once

#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <string>

namespace tests {

class OwnPorts {
 public:
  OwnPorts() {
    for (int i = 0; i < kRanges; ++i) {
      const auto key = static_cast<uint16_t>(kFirst + (getpid() + i) % kRanges * (kCount + 1));
      sockaddr_in address{};
      address.sin_family = AF_INET;
      address.sin_addr.s_addr = htonl(INADDR_ANY);
      address.sin_port = htons(key);
      if (bind(held_, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) continue;
      first_ = static_cast<uint16_t>(key + 1);
      return;
    }
    std::abort();
  }
  ~OwnPorts() { close(held_); }
  OwnPorts(const OwnPorts&) = delete;
  OwnPorts& operator=(const OwnPorts&) = delete;

  uint16_t first() const { return first_; }
  uint16_t last() const { return static_cast<uint16_t>(first_ + kCount - 1); }
  // In the form of the configuration.
  std::string text() const { return fmt::format("{}-{}", first(), last()); }

 private:
  static constexpr int kFirst = 21'000;  // the default of the configuration begins with 20,000
  static constexpr int kRanges = 89;
  static constexpr int kCount = 99;

  int held_ =
      socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);  // bound before the first: the range is whose that is
  uint16_t first_ = 0;
};

}  // namespace tests
