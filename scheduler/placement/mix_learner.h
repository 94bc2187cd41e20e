// The demand mix, learnt from the asks that arrive.
//
// A value: whoever takes jobs in owns one, tells it every ask, whether or not it will find room, and hands
// the mix on when it has changed. What is known at first is a guess worth ten asks: half devices and whole
// ones, with the CPU that the cluster has for each device. The mix is brought up to date after 30 asks, then
// each time half as many again have come, and from 1,000 on every 1,000: scores that depend on it hold in
// between.
//
// Bounded: of more than kMostShapes shapes, all counts are halved and those that come to nothing forgotten,
// so that old demand fades. State() has all of it as plain values; a learner made from them goes on alike.
#pragma once

#include <cstdint>
#include <vector>

#include "scheduler/placement/demand_mix.h"

namespace scheduler {

class MixLearner {
 public:
  static constexpr size_t kMostShapes = 4096;

  struct State {
    std::vector<DemandCounts::Item> seen{};    // so far
    std::vector<DemandCounts::Item> in_use{};  // that the mix was made of
    uint64_t observed = 0;
    uint64_t next = 0;  // value of `observed` at which the mix is brought up to date
    uint64_t version = 0;

    friend bool operator==(const State&, const State&) = default;
  };

  explicit MixLearner(const Cluster& cluster);
  explicit MixLearner(const State& state);

  // So many members ask for the shape. True: the mix is another one now.
  bool Observe(const Shape& shape, uint64_t times = 1);

  const DemandMix& mix() const { return mix_; }
  State state() const;

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
