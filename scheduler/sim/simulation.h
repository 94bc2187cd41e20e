// Simulation: shared by the parts of a simulated world: the trace, the clock, the planner, coming events and
// measurements.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "scheduler/planner.h"
#include "scheduler/sim/arrivals.h"
#include "scheduler/sim/collector.h"
#include "scheduler/sim/events.h"
#include "scheduler/sim/traces/trace.h"

namespace scheduler::sim {

struct DomainFault {
  DomainId domain = 0;  // all nodes below it fail
  conf::Duration at{};  // since the first submission
};

struct Drain {
  NodeId node = 0;
  conf::Duration at{};  // since the first submission
  conf::Duration length{};
};

struct WorldOptions {
  uint64_t seed = 1;
  uint32_t times = 1;  // how often the trace runs, one after the other
  Estimates estimates{.kind = EstimateKind::kUser, .sigma = 0};
  conf::Duration min_cycle{};  // between planning cycles
  conf::Duration load{};       // from any start of a job to its work
  conf::Duration mtbf{};       // mean time between faults of one node; 0: none fail by themselves
  conf::Duration repair = std::chrono::hours(4);
  conf::Duration quarantine =
      std::chrono::hours(24 * 7);  // until a quarantined node is back, its record clean
  std::vector<DomainFault> faults{};
  std::vector<Drain> drains{};
  conf::Duration notebook_used = std::chrono::hours(2);  // means, exponential
  conf::Duration notebook_idle = std::chrono::hours(6);
  conf::Duration sample_every = std::chrono::hours(1);
  conf::Duration horizon{};  // the world ends then; 0: when all that can end has, or after a century
  // The snapshot of the first cycle at or after this time goes to on_snapshot; since the first submission.
  std::optional<conf::Duration> snapshot_at{};
  std::function<void(const Snapshot&)> on_snapshot{};
  bool saves_when_told = true;  // false: checkpoints are periodic only, the signal to stop is not heeded
  // Called with every plan as soon as it is made; may be empty.
  std::function<void(conf::TimePoint, const Plan&, const Planner&)> planned{};
};

struct Simulation {
  Simulation(const Cluster& in, std::vector<Queue> queue_list, Policy by, const std::vector<TraceJob>& trace,
             WorldOptions with);

  const Cluster* cluster;
  std::vector<Queue> queues;
  Policy policy;
  WorldOptions options;
  Arrivals arrivals;
  Rng fault_rng;
  Rng user_rng;
  DemandMix mix;
  Planner planner;
  JttedEstimator jtted;
  conf::TimePoint start;
  conf::TimePoint now;
  Collector collector;
  EventQueue events;
  uint32_t coming = 0;              // events that may let a waiting job start, beside repairs
  bool something_happened = false;  // since the last planning cycle
  Report counts;
};

// The most frequent shapes that jobs ask for, at most `items`, with their counts.
DemandMix MixOf(const std::vector<TraceJob>& jobs, const Cluster& cluster, size_t items = 32);

}  // namespace scheduler::sim
