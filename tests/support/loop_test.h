// Runs a test's coroutine on a loop of its own, until everything that it started has ended.
//
// Servers must outlive the tasks of their connections, so TestLoop::Make creates them, and they are destroyed
// after the last task.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "gateway/net/clock.h"
#include "gateway/net/loop.h"

namespace tests {

class TestLoop : public gateway::net::Loop {
 public:
  using Loop::Loop;

  // Runs until no task is left; new ones may follow.
  void Drain() {
    bool idle = false;
    tasks.WhenIdle([&idle] { idle = true; });
    while (!idle) io.run_one();
  }

  template <class T, class... Args>
  T& Make(Args&&... args) {
    return Keep(std::make_unique<T>(*this, std::forward<Args>(args)...));
  }
  template <class T>
  T& Keep(std::unique_ptr<T> made) {
    T& kept = *made;
    kept_.push_back(std::shared_ptr<T>(std::move(made)));
    return kept;
  }

 private:
  std::vector<std::shared_ptr<void>> kept_;
};

// `body` closes at its end what it opened: servers, clients.
inline void RunOnLoop(const std::function<gateway::net::Task<void>(TestLoop&)>& body) {
  TestLoop loop([](std::exception_ptr error) {
    try {
      std::rethrow_exception(error);
    } catch (const std::exception& e) {
      ADD_FAILURE() << "a task threw: " << e.what();
    }
  });
  loop.tasks.Spawn(body(loop));
  loop.Stop();
  loop.Run();
}

// True as soon as `condition` holds; false if it does not within `limit`.
inline gateway::net::Task<bool> Eventually(gateway::net::Loop& loop, std::function<bool()> condition,
                                           conf::Duration limit = std::chrono::seconds(30)) {
  const conf::TimePoint deadline = gateway::net::Now() + limit;
  gateway::net::Sleep sleep(loop.watchdog);
  while (!condition()) {
    if (gateway::net::Now() > deadline) co_return false;
    co_await sleep.For(gateway::net::Watchdog::kTick);
  }
  co_return true;
}

}  // namespace tests
