#include "bench/scheduling/workload.h"

#include <fmt/format.h>

#include <utility>

namespace bench::scheduling {

scheduler::Cluster EightWayCluster(uint32_t nodes, int nodes_per_leaf, int leaves_per_spine) {
  scheduler::Cluster cluster;
  cluster.kinds = {{.name = "h100", .memory_mib = 81'920}};
  cluster.types = {{.name = "dgx", .cpu_milli = 128'000, .memory_mib = 2 << 20, .devices = 8}};
  for (uint32_t n = 0; n < nodes; ++n) cluster.nodes.push_back({.name = fmt::format("node-{}", n)});
  scheduler::GroupIntoLeaves(cluster, nodes_per_leaf, leaves_per_spine);
  return cluster;
}

scheduler::sim::TraceJob JobOn(std::string queue, uint32_t number, uint32_t devices, conf::Duration submitted,
                               conf::Duration run) {
  scheduler::sim::TraceJob made;
  made.job.id = fmt::format("{}/{}", queue, number);
  made.job.queue = std::move(queue);
  made.job.submitted = conf::TimePoint(submitted);
  made.job.roles = scheduler::sim::GangOf(devices, 8);
  made.job.estimate = run;
  made.run = run;
  return made;
}

conf::Duration Between(scheduler::Rng& rng, conf::Duration least, conf::Duration most) {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(most - least).count();
  return least + std::chrono::seconds(rng.Uniform(static_cast<uint64_t>(seconds) + 1));
}

}  // namespace bench::scheduling
