// One limit: its capacity, this process's share of it, and its counter.
//
// Owned by the limit tree and by the plans of reservations in flight; everything but its identity is guarded
// by the lock of its root organisation. About 200 bytes, and 504 more for a limit per minute.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>

#include "conf/time.h"
#include "router/limits/calendar.h"
#include "router/limits/sliding_window.h"
#include "router/limits/spec.h"

namespace router::limits {

// When a charge happens: the time, and the second of it that windows count by.
struct Moment {
  conf::TimePoint at;
  int64_t second = 0;

  static Moment At(conf::TimePoint t) {
    return {t, std::chrono::floor<std::chrono::seconds>(t).time_since_epoch().count()};
  }
};

// What a request takes of each dimension.
class Amounts {
 public:
  int64_t& operator[](Dimension d) { return values_[static_cast<size_t>(d)]; }
  int64_t operator[](Dimension d) const { return values_[static_cast<size_t>(d)]; }

 private:
  std::array<int64_t, kDimensions> values_ = {};
};

// Whether coming again can help a request that was refused.
enum class Retry : uint8_t {
  kAfter,        // after retry_after
  kAtPeriodEnd,  // the budget is spent; retry_after is when its next period begins
  kNever,        // it asks for more than the whole limit
};

// How long to wait where nobody can know: until another request ends, or until shares move.
inline constexpr conf::Duration kUnknownWait = std::chrono::seconds(1);

class Limit {
 public:
  static constexpr int64_t kUnshared = std::numeric_limits<int64_t>::max();

  Limit(std::string scope, LimitSpec spec);

  const std::string& scope() const { return scope_; }
  const LimitSpec& spec() const {
    return spec_;
  }  // its capacity is the first one; Capacity() is the present one
  Dimension dimension() const { return spec_.dimension; }
  std::string_view name() const { return LimitName(spec_.dimension, spec_.period); }

  int64_t Capacity() const { return capacity_; }
  void SetCapacity(int64_t capacity) { capacity_ = capacity; }

  // The most that this process may have in use: the capacity, or its share of it.
  int64_t Effective() const { return capacity_ < share_ ? capacity_ : share_; }
  int64_t Share() const { return share_; }
  void SetShare(int64_t share) { share_ = share; }

  // What is charged now, reservations in flight included.
  int64_t Used(const Moment& now);
  int64_t Room(const Moment& now) { return Effective() - Used(now); }
  bool Admits(const Moment& now, int64_t amount) {
    // Time of devices is used up as it passes: what a request will take of it nobody knows.
    if (spec_.dimension == Dimension::kDeviceBudget) return Room(now) > 0;
    return amount <= 0 || Room(now) >= amount;
  }

  void Reserve(const Moment& now, int64_t amount);
  // Turns what was reserved at `then` into what was used, where it was charged. The excess over the
  // reservation is charged too and counted in Overrun().
  void Settle(const Moment& then, int64_t reserved, int64_t actual);

  // What was used at `at`, whoever used it, without a reservation; nothing when that was in another period
  // than the present one. Budgets only.
  void Charge(const Moment& now, conf::TimePoint at, int64_t amount);

  // When `amount` that is not admitted now would be, if nothing else came.
  struct Wait {
    Retry retry;
    conf::Duration retry_after;
  };
  Wait WaitFor(const Moment& now, int64_t amount);
  // Until nothing is charged any more; kUnknownWait for concurrency in use.
  conf::Duration UntilReset(const Moment& now);

  // Sets a budget's settled consumption in its present period, which must begin at `start`, to `spent` and
  // what was settled since Settled() was `before`; what is reserved now stays on top. False, and nothing
  // happens, for another period or dimension.
  bool Restore(const Moment& now, conf::TimePoint start, int64_t spent, int64_t before);
  int64_t Settled(const Moment& now) { return Used(now) - Reserved(now); }

  int64_t Reserved(const Moment& now);
  uint64_t Overrun() const { return overrun_; }
  uint64_t Refusals() const { return refusals_; }
  PeriodBounds Bounds() const { return bounds_; }

  void NoteRefused(int64_t amount);

  // What was asked for since the last call, admitted and refused; counted while the limit is shared.
  struct Asked {
    int64_t admitted = 0;
    int64_t refused = 0;
    int64_t most_used = 0;  // at one moment; of concurrency alone, and whether shared or not
  };
  Asked TakeAsked();

 private:
  bool Shared() const { return share_ != kUnshared; }
  void Roll(const Moment& now);

  const std::string scope_;
  const LimitSpec spec_;
  const Shape shape_;
  int64_t capacity_;
  int64_t share_ = kUnshared;
  int64_t used_ = 0;      // gauges and budgets
  int64_t reserved_ = 0;  // the part of what is charged that is not settled
  uint64_t overrun_ = 0;  // all excess over reservations since the start
  uint64_t refusals_ = 0;
  Asked asked_;
  PeriodBounds bounds_;                    // budgets
  std::unique_ptr<SlidingWindow> window_;  // limits per minute
};

}  // namespace router::limits
