// An engine that says exactly what a test tells it: each request is read whole and answered with the same
// bytes, and the connection is closed. On a free port of loopback, on a thread of its own.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <thread>

namespace tests {

class FakeUpstream {
 public:
  // `answer`: head and body, as they go over the wire. Empty: the connection is never accepted, and further
  // ones do not even connect.
  explicit FakeUpstream(std::string answer);
  ~FakeUpstream();

  uint16_t port() const { return port_; }
  uint64_t requests() const { return requests_; }

 private:
  void Serve();
  void Answer(int connection);
  void FillBacklog();

  const std::string answer_;
  int listener_ = -1;
  int filler_[4] = {-1, -1, -1, -1};
  uint16_t port_ = 0;
  std::atomic<uint64_t> requests_{0};
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

}  // namespace tests
