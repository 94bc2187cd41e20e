// Placing one gang: members of eight devices each unless said otherwise, nodes of eight in a three-level
// fabric (leaves of 16 nodes, spines of 16 leaves), half of the leaves with a node taken. Each iteration
// places and takes back.
#include <benchmark/benchmark.h>

#include <fmt/format.h>

#include <memory>
#include <string>

#include "bench/micro/allocations.h"
#include "scheduler/placement/gang.h"
#include "scheduler/placement/policies.h"

namespace {

using namespace scheduler;

struct World {
  World(int nodes, uint32_t members, uint16_t devices, const char* level)
      : cluster(Build(nodes)),
        state(cluster),
        shapes(cluster),
        jobs(shapes),
        placer(state, shapes, *FindPlacementPolicy("e-binpack")),
        gangs(state, shapes) {
    Trial trial(state);
    const JobIndex other = jobs.Add(Gang(1, 8, ""), 0);
    for (NodeId node = 0; node < static_cast<NodeId>(nodes) - 32; node += 32) {
      trial.Assign({.job = other, .rank = node, .holding = *placer.On(node, jobs[other].shapes[0])});
    }
    trial.Commit();
    job = jobs.Add(Gang(members, devices, level), 0);
  }

  static Cluster Build(int nodes) {
    Cluster cluster;
    cluster.kinds = {{.name = "h100", .memory_mib = 81920}};
    cluster.types = {{.name = "dgx", .cpu_milli = 128'000, .memory_mib = 2 << 20, .devices = 8}};
    for (int i = 0; i < nodes; ++i) cluster.nodes.push_back({.name = fmt::format("node-{}", i)});
    GroupIntoLeaves(cluster, 16, 16);
    return cluster;
  }

  Job Gang(uint32_t members, uint16_t devices, const char* level) {
    Job gang;
    gang.id = std::to_string(jobs.size());
    gang.roles = {{.ask = {.devices = {{.count = devices}}}, .count = members, .min_count = members}};
    gang.topology = {.level = level, .required = *level != 0};
    return gang;
  }

  Cluster cluster;
  ClusterState state;
  ShapeTable shapes;
  JobTable jobs;
  Placer placer;
  GangPlacer gangs;
  JobIndex job = 0;
};

void PlaceGang(benchmark::State& state, const char* level, uint16_t devices, bool fits) {
  World world(static_cast<int>(state.range(1)), static_cast<uint32_t>(state.range(0)), devices, level);
  Rng rng(1);
  bench::AllocationCounter count(state);
  for (auto _ : state) {
    Trial trial(world.state);
    const GangResult result =
        world.gangs.Place(trial, world.placer, world.job, world.jobs[world.job], nullptr, rng);
    if (result.placed.empty() == fits) state.SkipWithError("not placed as expected");
    benchmark::DoNotOptimize(result.placed.data());
  }
}

BENCHMARK_CAPTURE(PlaceGang, anywhere, "", 8, true)
    ->Args({1, 10'000})
    ->Args({16, 10'000})
    ->Args({512, 10'000})
    ->Args({1'900, 2'048})
    ->Args({1'900, 10'000})
    ->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(PlaceGang, of_single_devices, "", 1, true)
    ->Args({512, 10'000})
    ->Args({2'048, 2'048})
    ->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(PlaceGang, refused_below_a_spine, "spine", 8, false)
    ->Args({512, 10'000})
    ->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(PlaceGang, refused_by_counters, "", 8, false)
    ->Args({10'000, 10'000})
    ->Unit(benchmark::kMicrosecond);

}  // namespace
