#include "scheduler/sim/workload.h"

#include <absl/container/flat_hash_set.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "scheduler/placement/empty_cluster.h"
#include "scheduler/placement/shortfall.h"
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

void SetEstimates(std::vector<TraceJob>& jobs, const Estimates& estimates, Rng& rng) {
  if (estimates.kind == EstimateKind::kUser) return;
  for (TraceJob& job : jobs) {
    if (!job.run) continue;
    if (estimates.kind == EstimateKind::kTrace && job.job.estimate) continue;
    const double factor =
        estimates.kind == EstimateKind::kNoisy ? std::exp(estimates.sigma * Normal(rng)) : 1;
    const conf::Duration exact = WithCheckpoints(job);
    const std::optional<conf::Duration> estimate = Seconds(conf::ToSeconds(exact) * factor);
    job.job.estimate = factor == 1 ? exact : estimate.value_or(exact);
  }
}

void ScaleArrivals(std::vector<TraceJob>& jobs, double factor) {
  if (jobs.empty()) return;
  const conf::TimePoint first = jobs.front().job.submitted;
  for (TraceJob& job : jobs) {
    const auto since = static_cast<double>((job.job.submitted - first).count()) / factor;
    job.job.submitted = first + conf::Duration(std::llround(since));
  }
}

void Repeat(std::vector<TraceJob>& jobs, uint32_t times) {
  if (jobs.empty() || times < 2) return;
  const conf::Duration span = jobs.back().job.submitted - jobs.front().job.submitted;
  const conf::Duration period = span + span / static_cast<int64_t>(jobs.size());
  const size_t once = jobs.size();
  jobs.reserve(once * times);
  for (uint32_t copy = 2; copy <= times; ++copy) {
    for (size_t i = 0; i < once; ++i) {
      TraceJob job = jobs[i];
      job.job.id += fmt::format("#{}", copy);
      for (std::string& after : job.job.after) after += fmt::format("#{}", copy);
      job.job.submitted += period * (copy - 1);
      jobs.push_back(std::move(job));
    }
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
  const std::set<std::string, std::less<>> leaves = LeavesOf(queues);
  absl::flat_hash_set<std::string> kept;
  std::vector<TraceJob> possible;
  possible.reserve(trace.jobs.size());
  for (TraceJob& job : trace.jobs) {
    const auto missing =
        std::ranges::find_if(job.job.after, [&](const std::string& id) { return !kept.contains(id); });
    if (kept.contains(job.job.id)) {
      LeaveOut(trace, file, job.line, job.job.id, fmt::format("job {}: is given twice", job.job.id));
    } else if (!leaves.contains(job.job.queue)) {
      LeaveOut(trace, file, job.line, job.job.id,
               fmt::format("job {}: there is no leaf queue {} in the policy", job.job.id, job.job.queue));
    } else if (missing != job.job.after.end()) {
      LeaveOut(
          trace, file, job.line, job.job.id,
          fmt::format("job {}: waits for {}, which is not among the jobs before it", job.job.id, *missing));
    } else if (!empty.Holds(job.job)) {
      LeaveOut(trace, file, job.line, job.job.id,
               fmt::format("job {}: impossible on this cluster: {}", job.job.id,
                           ShortfallOf(job.job, cluster, Among::kAllNodes)));
    } else {
      kept.insert(job.job.id);
      possible.push_back(std::move(job));
    }
  }
  trace.jobs = std::move(possible);
}

}  // namespace scheduler::sim
