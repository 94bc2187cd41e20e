// An engine that keeps its connections: on each, it answers one request after another with the bytes that a test gives,
// and may write more without a request. On loopback; each connection has a thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "tests/support/fake_upstream.h"

namespace tests {

class KeptUpstream {
 public:
  // What goes over the wire for the request; the connection stays open. GETs are answered with an empty 200.
  using Answers = std::function<std::string(const FakeUpstream::Request& request)>;

  explicit KeptUpstream(Answers answers);
  ~KeptUpstream();

  uint16_t port() const { return port_; }
  std::vector<FakeUpstream::Request> seen() const;       // POSTs, in order
  uint64_t connections() const { return connections_; }  // with at least one POST
  // Writes on every connection that is open. On loopback the other side has the bytes when this returns.
  void SayUnasked(std::string_view bytes);

 private:
  void Accept();
  void Serve(int connection);

  const Answers answers_;
  int listener_ = -1;
  uint16_t port_ = 0;
  std::atomic<bool> stopping_{false};
  std::atomic<uint64_t> connections_{0};
  mutable std::mutex mutex_;
  std::vector<FakeUpstream::Request> seen_;  // guarded by mutex_
  std::vector<int> open_;                    // guarded by mutex_
  std::vector<std::thread> threads_;         // of accept()'s thread alone
  std::thread accepting_;
};

}  // namespace tests
