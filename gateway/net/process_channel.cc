#include "gateway/net/process_channel.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <array>
#include <cerrno>
#include <cstring>

namespace gateway::net {
namespace {

constexpr size_t kFdBytes = CMSG_SPACE(ProcessChannel::kMaxFds * sizeof(int));

}  // namespace

std::optional<std::pair<ProcessChannel, ProcessChannel>> ProcessChannel::MakePair() {
  std::array<int, 2> ends{-1, -1};
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) return std::nullopt;
  return std::pair(ProcessChannel(Fd(ends[0])), ProcessChannel(Fd(ends[1])));
}

bool ProcessChannel::Send(std::span<const uint8_t> bytes, std::span<const int> fds) {
  if (bytes.size() > kMaxBytes || fds.size() > kMaxFds) return false;
  const auto size = static_cast<uint32_t>(bytes.size());
  std::vector<uint8_t> whole(sizeof size + bytes.size());
  std::memcpy(whole.data(), &size, sizeof size);
  if (size > 0) std::memcpy(whole.data() + sizeof size, bytes.data(), size);
  alignas(cmsghdr) std::array<char, kFdBytes> control{};
  for (size_t sent = 0; sent < whole.size();) {
    iovec part{.iov_base = whole.data() + sent, .iov_len = whole.size() - sent};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    if (sent == 0 && !fds.empty()) {
      message.msg_control = control.data();
      message.msg_controllen = CMSG_SPACE(fds.size_bytes());
      cmsghdr* const rights = CMSG_FIRSTHDR(&message);
      rights->cmsg_level = SOL_SOCKET;
      rights->cmsg_type = SCM_RIGHTS;
      rights->cmsg_len = CMSG_LEN(fds.size_bytes());
      std::memcpy(CMSG_DATA(rights), fds.data(), fds.size_bytes());
    }
    const ssize_t n = sendmsg(socket_.get(), &message, MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    sent += static_cast<size_t>(n);
  }
  return true;
}

bool ProcessChannel::ReadAll(uint8_t* to, size_t size, std::vector<Fd>& fds) {
  alignas(cmsghdr) std::array<char, kFdBytes> control{};
  while (size > 0) {
    iovec part{.iov_base = to, .iov_len = size};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    const ssize_t n = recvmsg(socket_.get(), &message, MSG_CMSG_CLOEXEC);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    for (cmsghdr* rights = CMSG_FIRSTHDR(&message); rights != nullptr;
         rights = CMSG_NXTHDR(&message, rights)) {
      if (rights->cmsg_level != SOL_SOCKET || rights->cmsg_type != SCM_RIGHTS) continue;
      for (size_t at = 0; CMSG_LEN(at) < rights->cmsg_len; at += sizeof(int)) {
        int fd = -1;
        std::memcpy(&fd, CMSG_DATA(rights) + at, sizeof fd);
        fds.emplace_back(fd);
      }
    }
    to += n;
    size -= static_cast<size_t>(n);
  }
  return fds.size() <= kMaxFds;
}

std::optional<ProcessChannel::Message> ProcessChannel::Receive() {
  Message message;
  uint32_t size = 0;
  if (!ReadAll(reinterpret_cast<uint8_t*>(&size), sizeof size, message.fds) || size > kMaxBytes)
    return std::nullopt;
  message.bytes.resize(size);
  if (!ReadAll(message.bytes.data(), size, message.fds)) return std::nullopt;
  return message;
}

bool ProcessChannel::OtherEndGone() const {
  pollfd other{.fd = socket_.get(), .events = 0, .revents = 0};
  return poll(&other, 1, 0) == 1 && (other.revents & (POLLHUP | POLLERR)) != 0;
}

}  // namespace gateway::net
