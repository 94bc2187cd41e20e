// One limit: its capacity, this process's share of it, and its counter.
//
// Owned by the limit tree and by the plans of reservations in flight. All but its identity is guarded by the
// lock of its root organisation. About 200 bytes, and 504 more for a limit per minute.
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

// The time of a charge, and its second, which windows count by.
struct Moment {
  conf::TimePoint at;
  int64_t second = 0;

  static Moment At(conf::TimePoint t) {
    return {t, std::chrono::floor<std::chrono::seconds>(t).time_since_epoch().count()};
  }
};

// The amounts that a request takes, by dimension.
class Amounts {
 public:
  int64_t& operator[](Dimension d) { return values_[static_cast<size_t>(d)]; }
  int64_t operator[](Dimension d) const { return values_[static_cast<size_t>(d)]; }

 private:
  std::array<int64_t, kDimensions> values_ = {};
};

// Whether a refused request can succeed later.
enum class Retry : uint8_t {
  kAfter,        // after retry_after
  kAtPeriodEnd,  // when the budget's next period begins, after retry_after
  kNever,        // it asks for more than the whole limit
};

// The suggested wait where the true one is unknown: until another request ends, or until shares move.
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

  // The most that this process may use: the capacity, or its share of it.
  int64_t Effective() const { return capacity_ < share_ ? capacity_ : share_; }
  int64_t Share() const { return share_; }
  void SetShare(int64_t share) { share_ = share; }

  // The charged amount, reservations in flight included.
  int64_t Used(const Moment& now);
  int64_t Remaining(const Moment& now) { return Effective() - Used(now); }
  bool Admits(const Moment& now, int64_t amount) {
    // Device time is charged as it passes; what a request will take of it is not known.
    if (spec_.dimension == Dimension::kDeviceBudget) return Remaining(now) > 0;
    return amount <= 0 || Remaining(now) >= amount;
  }

  void Reserve(const Moment& now, int64_t amount);
  // Replaces what was reserved at `then` by what was used, in the window or period of `then`. An excess over
  // the reservation is charged too, and counted in Overrun().
  void Settle(const Moment& then, int64_t reserved, int64_t actual);

  // Charges unreserved use of the time `at`. Does nothing when `at` is not in the present period. Budgets only.
  void Charge(const Moment& now, conf::TimePoint at, int64_t amount);

  // When an `amount` that is refused now would be admitted, if nothing else came.
  struct Wait {
    Retry retry;
    conf::Duration retry_after;
  };
  Wait WaitFor(const Moment& now, int64_t amount);
  // Time until nothing is charged; kUnknownWait while concurrency is in use.
  conf::Duration UntilReset(const Moment& now);

  // Sets a budget's settled consumption in the present period, which must begin at `start`, to `spent` plus
  // what was settled since Settled() was `before`. Present reservations stay on top. Returns false and does
  // nothing for another period or dimension.
  bool Restore(const Moment& now, conf::TimePoint start, int64_t spent, int64_t before);
  int64_t Settled(const Moment& now) { return Used(now) - Reserved(now); }

  int64_t Reserved(const Moment& now);
  uint64_t Overrun() const { return overrun_; }
  uint64_t Refusals() const { return refusals_; }
  PeriodBounds Bounds() const { return bounds_; }

  void NoteRefused(int64_t amount);

  // Amounts admitted and refused since the last call; counted while the limit is shared.
  struct Asked {
    int64_t admitted = 0;
    int64_t refused = 0;
    int64_t most_used = 0;  // peak; concurrency only, counted whether shared or not
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
  int64_t reserved_ = 0;  // the charged part that is not settled
  uint64_t overrun_ = 0;  // excess over reservations, ever
  uint64_t refusals_ = 0;
  Asked asked_;
  PeriodBounds bounds_;                    // budgets
  std::unique_ptr<SlidingWindow> window_;  // limits per minute
};

}  // namespace router::limits
