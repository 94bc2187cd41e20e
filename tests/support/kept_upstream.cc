#include "tests/support/kept_upstream.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>

namespace tests {
namespace {

void SendAll(int connection, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = send(connection, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (n <= 0) return;
    bytes.remove_prefix(static_cast<size_t>(n));
  }
}

}  // namespace

KeptUpstream::KeptUpstream(Answers answers) : answers_(std::move(answers)) {
  listener_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  if (bind(listener_, reinterpret_cast<sockaddr*>(&address), length) != 0) std::abort();
  getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &length);
  port_ = ntohs(address.sin_port);
  listen(listener_, 64);
  accepting_ = std::thread([this] { Accept(); });
}

KeptUpstream::~KeptUpstream() {
  stopping_ = true;
  accepting_.join();
  close(listener_);
}

void KeptUpstream::Accept() {
  while (!stopping_) {
    pollfd waiting{listener_, POLLIN, 0};
    if (poll(&waiting, 1, 20) <= 0) continue;
    const int connection = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    if (connection < 0) continue;
    const int on = 1;  // or what is said unasked would wait for the other side to acknowledge the last answer
    setsockopt(connection, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    {
      const std::scoped_lock lock(mutex_);
      open_.push_back(connection);
    }
    threads_.emplace_back([this, connection] { Serve(connection); });
  }
  for (std::thread& thread : threads_) thread.join();
}

void KeptUpstream::Serve(int connection) {
  std::string in;
  bool counted = false;
  while (!stopping_) {
    const size_t end = in.find("\r\n\r\n");
    if (end != std::string::npos) {
      const size_t length = in.find("content-length: ");
      const size_t whole =
          end + 4 + (length < end ? std::strtoull(in.c_str() + length + 16, nullptr, 10) : 0);
      if (in.size() >= whole) {
        const FakeUpstream::Request request{in.substr(0, end + 4), in.substr(end + 4, whole - end - 4)};
        in.erase(0, whole);
        if (!request.head.starts_with("POST ")) {
          SendAll(connection, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
          continue;
        }
        if (!counted) ++connections_;
        counted = true;
        {
          const std::scoped_lock lock(mutex_);
          seen_.push_back(request);
        }
        SendAll(connection, answers_(request));
        continue;
      }
    }
    pollfd readable{connection, POLLIN, 0};
    if (poll(&readable, 1, 20) <= 0) continue;
    std::array<char, 65536> piece;
    const ssize_t n = recv(connection, piece.data(), piece.size(), 0);
    if (n <= 0) break;
    in.append(piece.data(), static_cast<size_t>(n));
  }
  const std::scoped_lock lock(mutex_);
  std::erase(open_, connection);
  close(connection);
}

std::vector<FakeUpstream::Request> KeptUpstream::seen() const {
  const std::scoped_lock lock(mutex_);
  return seen_;
}

void KeptUpstream::SayUnasked(std::string_view bytes) {
  const std::scoped_lock lock(mutex_);
  for (const int connection : open_) SendAll(connection, bytes);
}

}  // namespace tests
