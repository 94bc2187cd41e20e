#include "router/health/retry_budget.h"

#include <algorithm>
#include <cmath>

namespace router {
namespace {

constexpr int64_t kRetry = 1000;
constexpr int64_t kMinute = 60'000'000'000;

}  // namespace

RetryBudget::RetryBudget(const RetryBudgetConfig& config)
    : per_request_(std::llround(std::clamp(config.share, 0.0, 10.0) * kRetry)),
      per_minute_(int64_t{config.min_per_minute} * kRetry),
      cap_(std::max<int64_t>(int64_t{config.max_saved} * kRetry, per_minute_)),
      milli_(per_minute_) {}

void RetryBudget::Deposit(int64_t milli) {
  int64_t current = milli_.load(std::memory_order_relaxed);
  while (current < cap_ &&
         !milli_.compare_exchange_weak(current, std::min(cap_, current + milli), std::memory_order_relaxed)) {
  }
}

void RetryBudget::OnRequest() {
  Deposit(per_request_);
}

void RetryBudget::Refund() {
  Deposit(kRetry);
}

bool RetryBudget::Withdraw(conf::TimePoint now) {
  int64_t since = trickled_until_.load(std::memory_order_relaxed);
  const int64_t at = now.time_since_epoch().count();
  const int64_t elapsed = std::clamp<int64_t>(at - since, 0, kMinute);
  const int64_t trickle = per_minute_ * (elapsed / 1'000'000) / (kMinute / 1'000'000);
  if ((since == 0 || trickle > 0) &&
      trickled_until_.compare_exchange_strong(since, at, std::memory_order_relaxed) && since != 0) {
    Deposit(trickle);
  }
  int64_t current = milli_.load(std::memory_order_relaxed);
  while (current >= kRetry) {
    if (milli_.compare_exchange_weak(current, current - kRetry, std::memory_order_relaxed)) return true;
  }
  return false;
}

}  // namespace router
