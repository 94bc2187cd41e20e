// Changes to a trace before it runs: faster arrivals, estimates, and leaving out what the cluster could never run.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "scheduler/model.h"
#include "scheduler/queue.h"
#include "scheduler/rng.h"
#include "scheduler/sim/traces/trace.h"

namespace scheduler::sim {

enum class EstimateKind : uint8_t {
  kExact,  // the real run time, periodic checkpoints included
  kNoisy,  // the real run time, times exp(σ · standard normal)
  kUser,   // as the trace says; jobs without one have none
  kTrace,  // as the trace says; jobs without one have the real run time
};

struct Estimates {
  EstimateKind kind = EstimateKind::kExact;
  double sigma = 1;
};

// "trace", "exact", "noisy" (σ 1), "noisy:0.5" or "user"; nothing for other text or a σ that is not positive.
std::optional<Estimates> ParseEstimates(std::string_view text);

// The estimate with which the job is submitted, after SetCheckpoints; draws from `rng` if it is noisy.
std::optional<conf::Duration> EstimateOf(const TraceJob& job, const Estimates& estimates, Rng& rng);
void SetEstimates(std::vector<TraceJob>& jobs, const Estimates& estimates, Rng& rng);

// Submissions come `factor` times as fast; run times stay. `factor` above 0.
void ScaleArrivals(std::vector<TraceJob>& jobs, double factor);

// Gives jobs that state no checkpoint contract this one.
void SetCheckpoints(std::vector<TraceJob>& jobs, const Checkpoint& contract);

// The queues that the jobs name, in order of name, without quotas: for a policy that has none.
std::vector<Queue> QueuesOf(const std::vector<TraceJob>& jobs);

// Leaves out and reports jobs that were given before, that not even the empty cluster could hold, that name a
// queue which does not exist or is not a leaf, or that wait for a job that is not there.
void LeaveOutImpossible(Trace& trace, const std::string& file, const Cluster& cluster,
                        std::span<const Queue> queues);

}  // namespace scheduler::sim
