// Hindsight: for how long, and with which margin, replicas should have been kept for the traffic so far.
//
// A rule (hold, margin) keeps replicas for `1 + margin` times the greatest load of the last `hold`; the replicas that
// it orders serve after a cold start. All rules are replayed with the load as it comes:
//
//   price = seconds of the replicas that the rule keeps
//         + (load-seconds above 85 % of the replicas that would be ready, less four fifths of the worst episode,
//            less a quarter of what the attainment allows) / (1 - attainment)
//
// The best rule has the lowest price over about the last day. So a model whose bursts return after idle minutes keeps
// its replicas as long as these bursts are worth it, and a model with steady load gives them back. A single event is
// weak evidence, so most of a rule's worst episode is left out. Prices begin with a handicap that grows with the
// distance from the usual rule: only evidence makes the law leave that rule.
//
// Owner: the demand law. Pure but for its memory; times must not go back. Constant time for each tick.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <vector>

#include "conf/time.h"
#include "scheduler/autoscale/policy.h"
#include "scheduler/autoscale/recent_extreme.h"

namespace scheduler::autoscale {

class Hindsight {
 public:
  // What was learned, to be kept while no process runs. It can be recalled with the same settings only.
  struct Memory {
    struct Rule {
      double replica_seconds = 0;
      double late = 0;   // load-seconds
      double worst = 0;  // of these, in one episode
    };
    struct Hold {
      double seconds = 0;
      double peak = 0;  // load, in replicas
      std::vector<Rule> rules{};
    };
    double up_at = 0;
    double least = 0;  // replicas
    double times = 0;  // all margins
    double seconds = 0;
    double load_seconds = 0;
    std::vector<Hold> holds{};
  };

  explicit Hindsight(const ScalingPolicy& policy);

  Memory memory() const;
  // Call it before the first tick, with what was learned until `at`. False: the memory has other settings, and nothing
  // changes.
  bool Recall(const Memory& memory, conf::TimePoint at, conf::TimePoint now);

  // Once a tick. `load`: replicas that are busy; `lead`: how long a start takes.
  void Add(double load, conf::Duration lead, conf::TimePoint now);

  // The best rule.
  conf::Duration hold() const { return holds_[best_hold_].length; }
  double margin() const { return MarginOf(best_margin_); }
  double kept() const { return holds_[best_hold_].peak.value() * (1 + margin()); }  // replicas

 private:
  static constexpr size_t kHolds = 6;
  static constexpr size_t kMargins = 7;

  // Load-seconds that a rule serves late, in total and by episode.
  struct Late {
    double sum = 0;
    double episode = 0;  // the latest one
    double worst = 0;
    conf::TimePoint at{};

    void Add(double seconds, conf::TimePoint now);
  };
  struct Rule {
    double replica_seconds = 0;
    Late late{};
  };
  struct Hold {
    conf::Duration length{};
    RecentMost peak{};
    RecentLeast ordered{};  // least peak since replicas that are ready now were ordered
    std::array<Rule, kMargins> rules{};
  };
  double MarginOf(size_t margin) const;
  double PriceOf(size_t hold, size_t margin) const;
  void Choose();

  double up_at_;
  double least_;        // replicas
  double may_be_late_;  // share
  double times_;        // the policy's factor of all margins
  std::array<Hold, kHolds> holds_{};
  double load_seconds_ = 0;
  double seconds_ = 0;
  size_t best_hold_;
  size_t best_margin_;
  std::optional<conf::TimePoint> began_;
  conf::TimePoint last_{};
};

}  // namespace scheduler::autoscale
