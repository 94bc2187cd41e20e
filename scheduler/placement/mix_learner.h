// The demand mix, learned from the requests that arrive.
//
// A value: its owner, which accepts jobs, reports every request, with or without room for it, and passes the
// mix on when it has changed. The initial guess counts as ten requests: half devices and whole ones, with the
// cluster's CPU for each device. The mix is updated after 30 requests, then each time when half as many again
// have arrived, and from 1,000 on every 1,000: scores that depend on it stay valid in between.
//
// Bounded: with more than kMostShapes shapes, all counts are halved, and those that become zero are
// forgotten, so that old demand fades. state() returns all of it as plain values; a learner made from them
// continues in the same way.
#pragma once

#include <cstdint>
#include <vector>

#include "scheduler/learned_demand.h"
#include "scheduler/placement/demand_mix.h"

namespace scheduler {

class MixLearner {
 public:
  static constexpr size_t kMostShapes = 4096;

  explicit MixLearner(const Cluster& cluster);
  explicit MixLearner(const LearnedDemand& known);

  // `times` members ask for the shape. True: the mix has changed.
  bool Observe(const Shape& shape, uint64_t times = 1);

  const DemandMix& mix() const { return mix_; }
  LearnedDemand state() const;

 private:
  void Refresh();

  DemandCounts seen_;
  DemandCounts in_use_;
  uint64_t observed_ = 0;
  uint64_t next_ = 30;
  uint64_t version_ = 0;
  DemandMix mix_;
};

}  // namespace scheduler
