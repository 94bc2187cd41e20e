// AsyncMutex: lets one task at a time through, in order of arrival; the number of waiting tasks is bounded.
//
// Thread: one loop's.
#pragma once

#include <deque>

#include "gateway/net/task.h"

namespace gateway::net {

class AsyncMutex {
 public:
  explicit AsyncMutex(size_t max_waiting) : max_waiting_(max_waiting) {}

  // False: too many tasks wait already. After true, Unlock() lets the next task through.
  Task<bool> Lock() {
    if (!locked_) {
      locked_ = true;
      co_return true;
    }
    if (waiting_.size() >= max_waiting_) co_return false;
    Event mine;
    waiting_.push_back(&mine);
    co_await mine.Wait();
    co_return true;
  }

  void Unlock() {
    if (waiting_.empty()) {
      locked_ = false;
      return;
    }
    Event* next = waiting_.front();
    waiting_.pop_front();
    next->Set();
  }

 private:
  const size_t max_waiting_;
  bool locked_ = false;
  std::deque<Event*> waiting_;
};

}  // namespace gateway::net
