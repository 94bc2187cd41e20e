#include "tests/support/fake_upstream.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>

#include "tests/support/child_process.h"

namespace tests {

FakeUpstream::FakeUpstream(std::string answer, uint16_t port) {
  const bool answers = !answer.empty();
  Say(std::move(answer));
  listener_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int on = 1;
  setsockopt(listener_, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  if (bind(listener_, reinterpret_cast<sockaddr*>(&address), length) != 0) std::abort();
  getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &length);
  port_ = ntohs(address.sin_port);
  listen(listener_, answers ? 64 : 0);
  if (answers) {
    thread_ = std::thread([this] { Serve(); });
  } else {
    FillBacklog();
  }
}

FakeUpstream::~FakeUpstream() {
  stopping_ = true;
  if (thread_.joinable()) thread_.join();
  for (const int fd : filler_) {
    if (fd >= 0) close(fd);
  }
  close(listener_);
}

// When its queue is full, the system drops new connections.
void FakeUpstream::FillBacklog() {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port_);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  for (int& fd : filler_) {
    fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    [[maybe_unused]] const int pending = connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address);
  }
}

void FakeUpstream::Serve() {
  while (!stopping_) {
    pollfd waiting{listener_, POLLIN, 0};
    if (poll(&waiting, 1, 20) <= 0) continue;
    const int connection = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    if (connection < 0) continue;
    Answer(connection);
    close(connection);
  }
}

// After a stop of the process, an interrupted send is incomplete.
bool FakeUpstream::SendAll(int connection, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = send(connection, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (n < 0 && errno != EINTR) return false;
    if (n > 0) bytes.remove_prefix(static_cast<size_t>(n));
  }
  return true;
}

void FakeUpstream::Answer(int connection) {
  std::string request;
  size_t end = std::string::npos;
  size_t whole = std::string::npos;
  while (!stopping_ && request.size() < whole) {
    pollfd readable{connection, POLLIN, 0};
    if (poll(&readable, 1, 20) <= 0) continue;
    std::array<char, 16384> piece;
    const ssize_t n = recv(connection, piece.data(), piece.size(), 0);
    if (n <= 0) return;
    request.append(piece.data(), static_cast<size_t>(n));
    end = request.find("\r\n\r\n");
    if (end == std::string::npos) continue;
    const size_t length = request.find("content-length: ");
    if (early_) break;
    whole = end + 4 + (length < end ? std::strtoull(request.c_str() + length + 16, nullptr, 10) : 0);
  }
  if (end == std::string::npos) return;
  std::vector<std::string> answer;
  bool in_turns = false;
  {
    const std::scoped_lock lock(mutex_);
    seen_.push_back({request.substr(0, end + 4), request.substr(end + 4)});
    answer = answer_;
    in_turns = in_turns_;
  }
  ++requests_;
  if (in_turns && !request.starts_with("POST ")) return;  // a probe or a scrape must not take the turns
  for (size_t i = 0; i < answer.size(); ++i) {
    if (i > 0 && in_turns) {
      while (!turns_.try_acquire_for(milliseconds(20))) {
        if (stopping_) return;
      }
    } else if (i > 0) {
      Pause(milliseconds(50));
    }
    if (!SendAll(connection, answer[i])) return;
  }
  shutdown(connection, SHUT_WR);
}

std::vector<FakeUpstream::Request> FakeUpstream::seen() const {
  const std::scoped_lock lock(mutex_);
  return seen_;
}

void FakeUpstream::Say(std::string answer) {
  std::vector<std::string> pieces;
  pieces.push_back(std::move(answer));
  SayInPieces(std::move(pieces));
}

void FakeUpstream::SayInPieces(std::vector<std::string> pieces) {
  const std::scoped_lock lock(mutex_);
  answer_ = std::move(pieces);
  in_turns_ = false;
}

void FakeUpstream::SayInTurns(std::vector<std::string> pieces) {
  const std::scoped_lock lock(mutex_);
  answer_ = std::move(pieces);
  in_turns_ = true;
}

std::string FakeUpstream::Request::field(std::string_view name) const {
  const std::string sign = fmt::format("\r\n{}: ", name);
  const size_t at = head.find(sign);
  if (at == std::string::npos) return "";
  const size_t value = at + sign.size();
  return head.substr(value, head.find("\r\n", value) - value);
}

std::string JsonAnswer(std::string_view body, int status) {
  return fmt::format("HTTP/1.1 {} Status\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{}",
                     status, body.size(), body);
}

}  // namespace tests
