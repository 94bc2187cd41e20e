#include "router/health/breaker.h"

#include <algorithm>

namespace router {

using conf::Duration;
using conf::TimePoint;

namespace {

// A trial that is under way may end at any moment; a request that waits for its result asks again after this.
constexpr Duration kTrialResultIn = std::chrono::seconds(1);

}  // namespace

Outcome OutcomeOf(int status, bool has_retry_after) {
  if (status < 300) return Outcome::kGood;
  if (status < 400) return Outcome::kBad;
  if (status == 501 || status == 505 || status == 529) return Outcome::kNeutral;
  if (status == 503) return has_retry_after ? Outcome::kNeutral : Outcome::kBad;
  return status >= 500 ? Outcome::kBad : Outcome::kNeutral;
}

void Breaker::Configure(const BreakerConfig& config) {
  const absl::MutexLock lock(&mutex_);
  config_ = config;
}

bool Breaker::Allows(TimePoint now) const {
  const int64_t at = Nanos(now);
  if (rest_until_.load(std::memory_order_relaxed) > at) return false;
  if (closed_.load(std::memory_order_acquire)) return true;
  return open_until_.load(std::memory_order_relaxed) <= at &&
         trial_until_.load(std::memory_order_relaxed) <= at;
}

Admission Breaker::Admit(TimePoint now) {
  if (!Allows(now)) return Admission::kRefused;
  if (closed_.load(std::memory_order_acquire)) return Admission::kAdmitted;
  const absl::MutexLock lock(&mutex_);
  if (closed_.load(std::memory_order_relaxed)) return Admission::kAdmitted;
  if (!Allows(now)) return Admission::kRefused;
  trial_until_.store(Nanos(now + config_.trial_for), std::memory_order_relaxed);
  return Admission::kTrial;
}

void Breaker::Callers::Add(CallerId caller) {
  enough = enough || caller == kAnyCaller || (first != kAnyCaller && first != caller);
  if (first == kAnyCaller) first = caller;
}

void Breaker::Report(Outcome outcome, Admission admission, TimePoint now, CallerId caller) {
  const bool trial = admission == Admission::kTrial;
  if (!trial && outcome == Outcome::kNeutral) return;
  if (!trial && outcome == Outcome::kGood) {
    if (consecutive_.load(std::memory_order_relaxed) != 0) consecutive_.store(0, std::memory_order_relaxed);
    good_.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  const absl::MutexLock lock(&mutex_);
  if (trial) {
    if (closed_.load(std::memory_order_relaxed)) return;
    trial_until_.store(0, std::memory_order_relaxed);
    if (outcome == Outcome::kBad) {
      Open(now);
    } else if (outcome == Outcome::kGood && ++good_trials_ >= config_.trials) {
      consecutive_.store(0, std::memory_order_relaxed);
      good_.store(0, std::memory_order_relaxed);
      bad_ = 0;
      next_open_for_ = {};
      closed_.store(true, std::memory_order_release);
    }
    return;
  }
  if (!closed_.load(std::memory_order_relaxed)) return;
  if (now - window_start_ > config_.window) {
    window_start_ = now;
    bad_ = 0;
    in_window_ = {};
    good_.store(0, std::memory_order_relaxed);
  }
  ++bad_;
  if (consecutive_.load(std::memory_order_relaxed) == 0) in_a_row_ = {};
  in_a_row_.Add(caller);
  in_window_.Add(caller);
  const uint32_t total = bad_ + good_.load(std::memory_order_relaxed);
  const bool too_many =
      consecutive_.fetch_add(1, std::memory_order_relaxed) + 1 >= config_.consecutive_failures;
  const bool too_often = total >= config_.min_requests && bad_ >= config_.failure_rate * total;
  const bool any = !config_.several_callers;
  if ((too_many && (any || in_a_row_.enough)) || (too_often && (any || in_window_.enough))) {
    Open(now);
  } else if (too_many || too_often) {
    suspected_until_.store(Nanos(now + config_.window), std::memory_order_relaxed);
  }
}

void Breaker::OnProbeFailed(TimePoint now) {
  if (!Suspected(now)) return;
  const absl::MutexLock lock(&mutex_);
  if (closed_.load(std::memory_order_relaxed)) Open(now);
}

void Breaker::Open(TimePoint now) {
  suspected_until_.store(0, std::memory_order_relaxed);
  good_trials_ = 0;
  const Duration open_for = std::max(next_open_for_, config_.open_for);
  next_open_for_ = std::min(open_for * 2, config_.max_open_for);
  open_until_.store(Nanos(now + open_for), std::memory_order_relaxed);
  closed_.store(false, std::memory_order_release);
}

void Breaker::Rest(std::optional<Duration> retry_after, TimePoint now, CallerId caller) {
  const absl::MutexLock lock(&mutex_);
  Duration rest = std::clamp(retry_after.value_or(config_.default_rest), Duration::zero(), config_.max_rest);
  if (now >= asked_until_) rested_ = {};
  rested_.Add(caller);
  asked_until_ = std::max(asked_until_, now + rest);
  if (config_.several_callers && !rested_.enough) rest = std::min(rest, config_.default_rest);
  const int64_t until = Nanos(now + rest);
  if (rest_until_.load(std::memory_order_relaxed) < until)
    rest_until_.store(until, std::memory_order_relaxed);
}

Breaker::Phase Breaker::phase(TimePoint now) const {
  if (closed_.load(std::memory_order_acquire)) return Phase::kClosed;
  return open_until_.load(std::memory_order_relaxed) > Nanos(now) ? Phase::kOpen : Phase::kHalfOpen;
}

bool Breaker::IsResting(TimePoint now) const {
  return rest_until_.load(std::memory_order_relaxed) > Nanos(now);
}

TimePoint Breaker::RetryAt(TimePoint now) const {
  int64_t at = std::max(Nanos(now), rest_until_.load(std::memory_order_relaxed));
  if (!closed_.load(std::memory_order_acquire)) {
    at = std::max(at, open_until_.load(std::memory_order_relaxed));
    const int64_t trial_until = trial_until_.load(std::memory_order_relaxed);
    if (trial_until > at) at = std::min(trial_until, Nanos(now + kTrialResultIn));
  }
  return TimePoint(Duration(at));
}

}  // namespace router
