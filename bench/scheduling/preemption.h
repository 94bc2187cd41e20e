// The cost of preemption: training gangs with periodic checkpoints under bursts of inference replicas of higher
// priority, in a simulated cluster, for several orders of choosing victims.
#pragma once

#include <cstdint>

#include "conf/time.h"
#include "scheduler/policy.h"

namespace bench::scheduling {

struct PreemptionOptions {
  scheduler::VictimOrder victims = scheduler::VictimOrder::kLeastCost;
  uint64_t seed = 1;  // of the workload and of random victims
  uint32_t nodes = 32;
  conf::Duration length = std::chrono::hours(72);  // of arrivals
  bool saves_when_told = false;                    // after the signal to stop; false: unsaved work is lost
};

struct PreemptionCost {
  uint32_t preemptions = 0;
  double lost_h = 0;        // GPU-hours of work that stops threw away
  double restarted_h = 0;   // GPU-hours of saving and restoring
  double training_h = 0;    // mean time from a training job's submission to its end
  double slowdown = 0;      // mean of the same, over its run time
  double burst_wait_s = 0;  // mean time from a replica's submission to its start
  uint32_t unfinished = 0;

  double wasted_h() const { return lost_h + restarted_h; }
};

PreemptionCost MeasurePreemption(const PreemptionOptions& options);

}  // namespace bench::scheduling
