// How many retries a model may add to its own load: a share of its requests, so that retries do not bury a
// failing fleet.
//
// A token bucket in thousandths of a retry, shared by all shards: every request adds its share, every retry
// takes one, and a slow trickle allows retries of a quiet model. Lock-free.
#pragma once

#include <atomic>
#include <cstdint>

#include "conf/time.h"

namespace router {

struct RetryBudgetConfig {
  double share = 0.2;            // retries per request
  uint32_t min_per_minute = 10;  // allowed whatever the share; also the budget at the start
  uint32_t max_saved = 100;      // most retries saved up
};

class RetryBudget {
 public:
  explicit RetryBudget(const RetryBudgetConfig& config = {});

  void OnRequest();
  bool Withdraw(conf::TimePoint now);  // false: the budget is spent, do not retry
  void Refund();                       // a withdrawn retry was not sent

  double available() const { return static_cast<double>(milli_.load(std::memory_order_relaxed)) / 1000; }

 private:
  void Deposit(int64_t milli);

  const int64_t per_request_;  // thousandths
  const int64_t per_minute_;   // thousandths
  const int64_t cap_;          // thousandths
  std::atomic<int64_t> milli_;
  std::atomic<int64_t> trickled_until_{0};  // nanoseconds; 0: not begun
};

}  // namespace router
