// The demand mix, learnt from the asks that arrive.
//
// A value: its owner, which takes jobs in, tells it every ask, whether or not it finds room, and passes the
// mix on when it has changed. What is known at first is a guess worth ten asks: half devices and whole ones,
// with the CPU that the cluster has for each device. The mix is brought up to date after 30 asks, then each
// time half as many again have come, and from 1,000 on every 1,000: scores that depend on it hold in between.
//
// Bounded: of more than kMostShapes shapes, all counts are halved and those that come to nothing forgotten,
// so that old demand fades. state() has all of it as plain values; a learner made from them goes on alike.
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
