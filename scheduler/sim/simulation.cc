#include "scheduler/sim/simulation.h"

#include <algorithm>
#include <utility>

namespace scheduler::sim {
namespace {

constexpr size_t kMostSamples = 100'000;

conf::TimePoint FirstSubmission(const Arrivals& arrivals) {
  return arrivals.size() == 0 ? conf::TimePoint() : arrivals.SubmissionOf(0);
}

// The step that was asked for, doubled until the whole trace has few enough samples.
conf::Duration SampleStep(const Arrivals& arrivals, conf::Duration wanted) {
  if (arrivals.size() == 0) return wanted;
  const conf::Duration span = arrivals.SubmissionOf(arrivals.size() - 1) - arrivals.SubmissionOf(0);
  while (span / wanted > static_cast<int64_t>(kMostSamples)) wanted *= 2;
  return wanted;
}

}  // namespace

Simulation::Simulation(const Cluster& in, std::vector<Queue> queue_list, Policy by,
                       const std::vector<TraceJob>& trace, WorldOptions with)
    : cluster(&in),
      queues(std::move(queue_list)),
      policy(std::move(by)),
      options(std::move(with)),
      arrivals(trace, options.times, options.estimates, options.seed),
      fault_rng(options.seed),
      user_rng(fault_rng.Fork()),
      mix(MixOf(trace, in)),
      planner(in, queues, policy),
      jtted(planner.state(), planner.shapes()),
      start(FirstSubmission(arrivals)),
      now(start),
      collector(in, queues, mix, start, SampleStep(arrivals, options.sample_every)) {}

DemandMix MixOf(const std::vector<TraceJob>& jobs, const Cluster& cluster, size_t items) {
  ShapeTable shapes(cluster);
  std::vector<uint64_t> count;
  uint64_t all = 0;
  for (const TraceJob& job : jobs) {
    for (const Role& role : job.job.roles) {
      const std::vector<ShapeId> resolved = shapes.Resolve(role.ask, job.job.tenant);
      if (resolved.empty()) continue;
      count.resize(shapes.size());
      count[resolved.front()] += role.count;
    }
  }
  std::vector<ShapeId> order(count.size());
  for (ShapeId id = 0; id < order.size(); ++id) order[id] = id;
  std::ranges::sort(order, {}, [&](ShapeId id) { return std::pair(~count[id], id); });
  if (order.size() > items) order.resize(items);
  for (const ShapeId id : order) all += count[id];
  DemandMix mix;
  mix.version = 1;
  for (const ShapeId id : order) {
    if (count[id] == 0) break;
    mix.items.push_back({shapes[id], static_cast<double>(count[id]) / static_cast<double>(all)});
  }
  return mix;
}

}  // namespace scheduler::sim
