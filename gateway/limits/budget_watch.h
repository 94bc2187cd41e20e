// BudgetWatch: measures how fast budgets are used, and reports once per period that a budget has reached a threshold
// (`people.budget_thresholds`): one event in the ledger and one notice, from the process that sees it first. A sent
// notice is an object of the store, written together with the event.
//
// Owner: the process. Thread: the loop's.
#pragma once

#include <absl/container/flat_hash_map.h>
#include <absl/status/status.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "conf/time.h"
#include "gateway/net/loop.h"
#include "gateway/net/watchdog.h"
#include "gateway/store/store.h"
#include "router/limits/tree.h"

namespace gateway {

// How fast a budget is used.
struct BurnRate {
  double per_hour = 0;  // in the limit's unit, over the last hour or since the period began
  std::optional<conf::TimePoint> used_up{};  // at this rate; none: the budget lasts until the period ends
};

// The body of the notice that a budget has reached `percent` of its capacity.
std::string ThresholdNotice(const router::limits::LimitState& budget, uint32_t percent);

class BudgetWatch final : private net::Alarm {
 public:
  // Called when a budget has reached `percent` of its capacity.
  using OnThreshold = std::function<void(const router::limits::LimitState& budget, uint32_t percent)>;

  // All arguments must outlive it. `thresholds`, in percent, is called each time.
  BudgetWatch(net::Loop& loop, store::Store& store, const router::limits::LimitTree& limits,
              std::function<std::vector<uint32_t>()> thresholds, OnThreshold on_threshold);

  void Start();
  void Stop();

  // None for a limit that is not a budget.
  std::optional<BurnRate> RateOf(const router::limits::LimitState& budget, conf::TimePoint now) const;

 private:
  struct Sample {
    conf::TimePoint at;
    int64_t used = 0;
  };
  struct Seen {
    conf::TimePoint period{};    // its beginning
    std::deque<Sample> samples;  // the oldest first, over at most an hour
    uint32_t reported = 0;       // the highest threshold that was reported in this period
  };

  void OnAlarm() override;
  void CheckBudget(const router::limits::LimitState& budget, const std::vector<uint32_t>& thresholds,
                   conf::TimePoint now);
  net::Task<void> Notify(router::limits::LimitState budget, uint32_t percent);
  net::Task<void> RemoveOld();

  net::Loop& loop_;
  store::Store& store_;
  const router::limits::LimitTree& limits_;
  const std::function<std::vector<uint32_t>()> thresholds_;
  const OnThreshold on_threshold_;
  absl::flat_hash_map<std::string, Seen> seen_;  // by the limit
  conf::TimePoint removed_at_{};
  bool stopped_ = false;
};

}  // namespace gateway
