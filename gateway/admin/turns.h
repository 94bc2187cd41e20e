// Turns: lets one task at a time through, in the order they came, and only so many wait. One loop's thread.
#pragma once

#include <deque>

#include "gateway/net/task.h"

namespace gateway::admin {

class Turns {
 public:
  explicit Turns(size_t max_waiting) : max_waiting_(max_waiting) {}

  // False: too many wait already. After true, Give() passes the turn on.
  net::Task<bool> Take() {
    if (!taken_) {
      taken_ = true;
      co_return true;
    }
    if (waiting_.size() >= max_waiting_) co_return false;
    net::Event mine;
    waiting_.push_back(&mine);
    co_await mine.Wait();
    co_return true;
  }

  void Give() {
    if (waiting_.empty()) {
      taken_ = false;
      return;
    }
    net::Event* next = waiting_.front();
    waiting_.pop_front();
    next->Set();
  }

 private:
  const size_t max_waiting_;
  bool taken_ = false;
  std::deque<net::Event*> waiting_;
};

}  // namespace gateway::admin
