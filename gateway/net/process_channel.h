// ProcessChannel: one end of a socket pair between two processes of this machine: messages of bytes, with a
// few descriptors beside them.
//
// Blocks. One thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "gateway/net/fd.h"

namespace gateway::net {

class ProcessChannel {
 public:
  struct Message {
    std::vector<uint8_t> bytes{};
    std::vector<Fd> fds{};
  };
  static constexpr size_t kMaxBytes = size_t{16} << 20;
  static constexpr size_t kMaxFds = 2;

  // Both ends; call it before a fork. Absent: there are no descriptors left.
  static std::optional<std::pair<ProcessChannel, ProcessChannel>> MakePair();

  // False: the other end is gone, or the message is too large.
  bool Send(std::span<const uint8_t> bytes, std::span<const int> fds = {});
  // Absent: the other end is gone, or its message was malformed.
  std::optional<Message> Receive();
  // Without waiting; from any thread.
  bool OtherEndGone() const;

 private:
  explicit ProcessChannel(Fd socket) : socket_(std::move(socket)) {}
  bool ReadAll(uint8_t* to, size_t size, std::vector<Fd>& fds);

  Fd socket_;
};

}  // namespace gateway::net
