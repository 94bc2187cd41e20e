// Learned demand: the requests so far, as a planner learned them (placement/mix_learner.h): plain values, so
// that a snapshot holds them.
#pragma once

#include <cstdint>
#include <vector>

#include "scheduler/shape.h"

namespace scheduler {

struct DemandCount {
  Shape shape;  // only what counts in a demand mix (placement/demand_mix.h: DemandOf)
  uint64_t count = 0;

  friend bool operator==(const DemandCount& a, const DemandCount& b) {
    return a.count == b.count && a.shape.cpu_milli == b.shape.cpu_milli && a.shape.count == b.shape.count &&
           a.shape.milli == b.shape.milli && a.shape.kinds == b.shape.kinds &&
           a.shape.profile == b.shape.profile;
  }
};

struct LearnedDemand {
  std::vector<DemandCount> seen{};    // so far
  std::vector<DemandCount> in_use{};  // the counts from which the present mix was made
  uint64_t observed = 0;              // asks
  uint64_t next = 0;                  // value of `observed` at which the mix is brought up to date
  uint64_t version = 0;

  friend bool operator==(const LearnedDemand&, const LearnedDemand&) = default;
};

}  // namespace scheduler
