// How fast the number of replicas may change: autoscaling/v2's `behavior`. First what was asked for over the
// stabilisation windows: down only to the most of it, up only to the least. Then, for each direction, rate
// limits over what really changed in a period, of which the one that allows most (or least) counts.
#pragma once

#include <cstdint>
#include <deque>

#include "scheduler/autoscale/policy.h"
#include "scheduler/autoscale/window.h"

namespace scheduler::autoscale {

class BehaviorLimits {
 public:
  explicit BehaviorLimits(Behavior behavior);

  // How many there may be, of `wanted`, from `current`.
  uint32_t Apply(uint32_t current, uint32_t wanted, conf::TimePoint now);
  // What then became of it.
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
