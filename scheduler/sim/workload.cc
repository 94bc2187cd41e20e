#include "scheduler/sim/workload.h"

#include <absl/container/flat_hash_set.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "scheduler/placement/empty_cluster.h"
#include "scheduler/placement/shortfall.h"
#include "scheduler/queues/empty_queues.h"
#include "scheduler/sim/draws.h"

namespace scheduler::sim {
namespace {

constexpr std::string_view kNoisy = "noisy";

std::set<std::string, std::less<>> LeavesOf(std::span<const Queue> queues) {
  std::set<std::string, std::less<>> leaves;
  for (const Queue& queue : queues) leaves.insert(queue.name);
  for (const Queue& queue : queues) leaves.erase(queue.parent);
  return leaves;
}

// The run time with what its periodic checkpoints add; one that would fall on the end is not taken.
conf::Duration WithCheckpoints(const TraceJob& job) {
  const Checkpoint& contract = job.job.checkpoint;
  if (contract.interval <= conf::Duration::zero() || *job.run <= contract.interval) return *job.run;
  const auto taken = static_cast<double>((*job.run - conf::Duration(1)) / contract.interval);
  return Seconds(conf::ToSeconds(*job.run) + taken * conf::ToSeconds(contract.save)).value_or(*job.run);
}

}  // namespace

std::optional<Estimates> ParseEstimates(std::string_view text) {
  if (text == "trace") return Estimates{EstimateKind::kTrace, 0};
  if (text == "exact") return Estimates{EstimateKind::kExact, 0};
  if (text == "user") return Estimates{EstimateKind::kUser, 0};
  if (text == kNoisy) return Estimates{EstimateKind::kNoisy, 1};
  if (!text.starts_with(kNoisy) || text[kNoisy.size()] != ':') return std::nullopt;
  const std::optional<double> sigma = ParseReal(text.substr(kNoisy.size() + 1));
  if (!sigma || *sigma <= 0 || *sigma > 10) return std::nullopt;
  return Estimates{EstimateKind::kNoisy, *sigma};
}

std::optional<conf::Duration> EstimateOf(const TraceJob& job, const Estimates& estimates, Rng& rng) {
  const bool has_its_own =
      estimates.kind == EstimateKind::kUser || (estimates.kind == EstimateKind::kTrace && job.job.estimate);
  if (has_its_own || !job.run) return job.job.estimate;
  const conf::Duration exact = WithCheckpoints(job);
  if (estimates.kind != EstimateKind::kNoisy) return exact;
  return Seconds(conf::ToSeconds(exact) * std::exp(estimates.sigma * Normal(rng))).value_or(exact);
}

void SetEstimates(std::vector<TraceJob>& jobs, const Estimates& estimates, Rng& rng) {
  for (TraceJob& job : jobs) job.job.estimate = EstimateOf(job, estimates, rng);
}

void ScaleArrivals(std::vector<TraceJob>& jobs, double factor) {
  if (jobs.empty()) return;
  const conf::TimePoint first = jobs.front().job.submitted;
  for (TraceJob& job : jobs) {
    const auto since = static_cast<double>((job.job.submitted - first).count()) / factor;
    job.job.submitted = first + conf::Duration(std::llround(since));
  }
}

void SetCheckpoints(std::vector<TraceJob>& jobs, const Checkpoint& contract) {
  for (TraceJob& job : jobs) {
    if (job.job.checkpoint.interval <= conf::Duration::zero()) job.job.checkpoint = contract;
  }
}

std::vector<Queue> QueuesOf(const std::vector<TraceJob>& jobs) {
  std::set<std::string> names;
  for (const TraceJob& job : jobs) names.insert(job.job.queue);
  std::vector<Queue> queues;
  queues.reserve(names.size());
  for (const std::string& name : names) queues.push_back({.name = name, .parent = {}});
  return queues;
}

void LeaveOutImpossible(Trace& trace, const std::string& file, const Cluster& cluster,
                        std::span<const Queue> queues) {
  EmptyCluster empty(cluster);
  EmptyQueues unused(cluster, {queues.begin(), queues.end()});
  const std::set<std::string, std::less<>> leaves = LeavesOf(queues);
  absl::flat_hash_set<std::string> kept;
  std::erase_if(trace.jobs, [&](const TraceJob& job) {
    const std::string& id = job.job.id;
    const auto missing = std::ranges::find_if(
        job.job.after, [&](const std::string& before) { return !kept.contains(before); });
    std::string why;
    if (kept.contains(id)) {
      why = "is given twice";
    } else if (!leaves.contains(job.job.queue)) {
      why = fmt::format("there is no leaf queue {} in the policy", job.job.queue);
    } else if (missing != job.job.after.end()) {
      why = fmt::format("waits for {}, which is not among the jobs before it", *missing);
    } else if (!empty.Holds(job.job)) {
      why = "impossible on this cluster: " + ShortfallOf(job.job, cluster, Among::kAllNodes);
    } else if (const std::string refused = unused.WhyRefused(job.job); !refused.empty()) {
      why = "can never start: " + refused;
    } else {
      kept.insert(id);
      return false;
    }
    LeaveOut(trace, file, job.line, id, fmt::format("job {}: {}", id, why));
    return true;
  });
}

}  // namespace scheduler::sim
