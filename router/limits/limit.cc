#include "router/limits/limit.h"

#include <algorithm>
#include <utility>

namespace router::limits {
namespace {

conf::TimePoint FromSecond(int64_t second) {
  return conf::TimePoint(std::chrono::seconds(second));
}

}  // namespace

Limit::Limit(std::string scope, LimitSpec spec)
    : scope_(std::move(scope)),
      spec_(std::move(spec)),
      shape_(ShapeOf(spec_.dimension)),
      capacity_(spec_.capacity),
      window_(shape_ == Shape::kWindow ? std::make_unique<SlidingWindow>() : nullptr) {}

void Limit::Roll(const Moment& now) {
  if (now.at < bounds_.end) return;
  bounds_ = BoundsOf(spec_.period, now.at);
  used_ = 0;
  reserved_ = 0;
}

int64_t Limit::Used(const Moment& now) {
  switch (shape_) {
    case Shape::kWindow:
      return window_->Total(now.second);
    case Shape::kPeriod:
      Roll(now);
      break;
    case Shape::kGauge:
      break;
  }
  return used_;
}

int64_t Limit::Reserved(const Moment& now) {
  if (shape_ == Shape::kPeriod) Roll(now);
  return reserved_;
}

void Limit::Reserve(const Moment& now, int64_t amount) {
  if (shape_ == Shape::kWindow) {
    window_->Add(now.second, amount);
  } else {
    if (shape_ == Shape::kPeriod) Roll(now);
    used_ += amount;
    asked_.most_used = std::max(asked_.most_used, used_);
  }
  reserved_ += amount;
  if (Shared()) asked_.admitted += amount;
}

void Limit::Settle(const Moment& then, int64_t reserved, int64_t actual) {
  const bool overrun = actual > reserved && shape_ != Shape::kGauge;
  if (overrun) overrun_ += static_cast<uint64_t>(actual - reserved);
  if (shape_ == Shape::kWindow) {
    window_->Add(then.second, actual - reserved);
  } else if (shape_ == Shape::kPeriod && !bounds_.Contains(then.at)) {
    return;  // its period is over
  } else {
    used_ += actual - reserved;
  }
  reserved_ -= reserved;
}

void Limit::Charge(const Moment& now, conf::TimePoint at, int64_t amount) {
  Roll(now);
  if (!bounds_.Contains(at)) return;
  used_ = std::min(used_ + amount, kMaxCapacity);
  if (Shared()) asked_.admitted += amount;
}

Limit::Wait Limit::WaitFor(const Moment& now, int64_t amount) {
  if (amount > capacity_) return {Retry::kNever, conf::Duration::zero()};
  if (shape_ == Shape::kGauge || amount > Effective()) return {Retry::kAfter, kUnknownWait};
  if (spec_.dimension == Dimension::kDeviceBudget) {
    if (Used(now) < capacity_) return {Retry::kAfter, kUnknownWait};
    return {Retry::kAtPeriodEnd, bounds_.end - now.at};
  }
  const int64_t missing = amount - Remaining(now);
  if (shape_ == Shape::kWindow) {
    return {Retry::kAfter, FromSecond(window_->SecondWhenFreed(missing)) - now.at};
  }
  // A reserved amount may come back when its request ends.
  if (missing <= reserved_) return {Retry::kAfter, kUnknownWait};
  return {Retry::kAtPeriodEnd, bounds_.end - now.at};
}

conf::Duration Limit::UntilReset(const Moment& now) {
  if (Used(now) == 0) return conf::Duration::zero();
  switch (shape_) {
    case Shape::kWindow:
      return FromSecond(window_->SecondWhenEmpty()) - now.at;
    case Shape::kPeriod:
      return bounds_.end - now.at;
    case Shape::kGauge:
      break;
  }
  return kUnknownWait;
}

bool Limit::Restore(const Moment& now, conf::TimePoint start, int64_t spent, int64_t before) {
  if (shape_ != Shape::kPeriod || spent < 0) return false;
  Roll(now);
  if (start != bounds_.start) return false;
  const int64_t since = std::max<int64_t>(used_ - reserved_ - before, 0);
  used_ = std::min(spent, kMaxCapacity) + since + reserved_;
  return true;
}

void Limit::NoteRefused(int64_t amount) {
  ++refusals_;
  if (Shared()) asked_.refused += amount;
}

Limit::Asked Limit::TakeAsked() {
  return std::exchange(asked_, Asked{.admitted = 0, .refused = 0, .most_used = used_});
}

}  // namespace router::limits
