// Small clusters for the scheduler's tests.
#pragma once

#include <fmt/format.h>

#include <string>

#include "scheduler/model.h"
#include "scheduler/work.h"

namespace scheduler::testing {

inline PartitionLayout Mig80() {
  return {.name = "mig-80gb",
          .compute = 7,
          .slots = 8,
          .profiles = {{"1g.10gb", 1, 1, {0, 1, 2, 3, 4, 5, 6}},
                       {"2g.20gb", 2, 2, {0, 2, 4}},
                       {"3g.40gb", 3, 4, {0, 4}},
                       {"7g.80gb", 7, 8, {0}}}};
}

// Nodes of eight devices of 80 GB, 128 cores and 2 TiB, in leaf groups.
inline Cluster EightWay(int nodes, int nodes_per_leaf = 8, int leaves_per_spine = 0) {
  Cluster cluster;
  cluster.layouts = {Mig80()};
  cluster.kinds = {{.name = "h100", .memory_mib = 81920, .idle_watts = 70, .busy_watts = 700, .layout = 0}};
  cluster.types = {{.name = "dgx", .cpu_milli = 128'000, .memory_mib = 2 << 20, .kind = 0, .devices = 8}};
  for (int i = 0; i < nodes; ++i) cluster.nodes.push_back({.name = fmt::format("node-{:04}", i)});
  GroupIntoLeaves(cluster, nodes_per_leaf, leaves_per_spine);
  return cluster;
}

// Whole devices, with 8 cores and 64 GiB each.
inline Ask Devices(uint16_t count) {
  Ask ask;
  ask.devices = {{.count = count}};
  ask.cpu_milli = count * int64_t{8'000};
  ask.memory_mib = count * int64_t{65'536};
  return ask;
}

inline Ask Share(uint16_t milli, int64_t memory_mib = 0) {
  Ask ask;
  ask.devices = {{.milli = milli, .memory_mib = memory_mib}};
  ask.cpu_milli = 2'000;
  ask.memory_mib = 8'192;
  return ask;
}

inline Ask Partition(std::string profile) {
  Ask ask;
  ask.devices = {{.profile = std::move(profile)}};
  ask.cpu_milli = 2'000;
  ask.memory_mib = 8'192;
  return ask;
}

}  // namespace scheduler::testing
