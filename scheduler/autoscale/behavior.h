// How fast the number of replicas may change: `behavior` of Kubernetes' autoscaling/v2.
//
// First the stabilisation windows: the number falls only to the highest and rises only to the lowest number
// that was asked for within its window. Then, for each direction, rate limits over the changes in a period;
// of several limits the one that allows most (or least) counts.
#pragma once

#include <cstdint>
#include <deque>

#include "scheduler/autoscale/policy.h"
#include "scheduler/autoscale/window.h"

namespace scheduler::autoscale {

class BehaviorLimits {
 public:
  explicit BehaviorLimits(Behavior behavior);

  // The allowed number of replicas if `wanted` are requested and there are `current`.
  uint32_t Apply(uint32_t current, uint32_t wanted, conf::TimePoint now);
  // Records the change that was made.
  void Changed(uint32_t from, uint32_t to, conf::TimePoint now);

 private:
  struct Change {
    conf::TimePoint at;
    int64_t by;
  };

  int64_t ChangedWithin(conf::Duration period, bool up, conf::TimePoint now) const;
  double UpTo(double current, conf::TimePoint now) const;
  double DownTo(double current, conf::TimePoint now) const;

  Behavior behavior_;
  Window wanted_up_;
  Window wanted_down_;
  std::deque<Change> changes_;  // as old as the longest period
  conf::Duration longest_{};
};

}  // namespace scheduler::autoscale
