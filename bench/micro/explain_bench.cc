// Why a job waits, and a snapshot as text, on 10,000 nodes of eight devices: all taken by jobs of one device
// each (80,000 of them), or half of each node taken by one job.
#include <benchmark/benchmark.h>

#include <fmt/format.h>

#include <string>

#include "bench/micro/allocations.h"
#include "scheduler/cycle/explain.h"
#include "scheduler/io/snapshot_json.h"

namespace {

using namespace scheduler;

constexpr int kNodes = 10'000;
constexpr conf::TimePoint kNow{std::chrono::hours(1000)};

Cluster Build() {
  Cluster cluster;
  cluster.kinds = {{.name = "h100", .memory_mib = 81920}};
  cluster.types = {{.name = "dgx", .cpu_milli = 128'000, .memory_mib = 2 << 20, .devices = 8}};
  for (int i = 0; i < kNodes; ++i) cluster.nodes.push_back({.name = fmt::format("node-{}", i)});
  GroupIntoLeaves(cluster, 16, 16);
  return cluster;
}

Job Gang(std::string id, uint32_t members, uint16_t devices, const char* level) {
  Job job{.id = std::move(id)};
  job.roles = {
      {.ask = {.devices = {{.count = devices}}, .cpu_milli = 1'000}, .count = members, .min_count = members}};
  job.topology = {.level = level, .required = *level != 0};
  return job;
}

struct World {
  explicit World(int devices_each) : cluster(Build()), state(cluster), shapes(cluster), jobs(shapes) {
    Trial trial(state);
    const int per_node = devices_each == 1 ? 8 : 1;
    for (NodeId node = 0; node < kNodes; ++node) {
      for (int i = 0; i < per_node; ++i) {
        Job job = Gang(fmt::format("r-{}-{}", node, i), 1, static_cast<uint16_t>(devices_each), "");
        job.estimate = std::chrono::hours(1 + (node * 7 + static_cast<NodeId>(i) * 13) % 97);
        const JobIndex index = jobs.Add(std::move(job), 0);
        jobs[index].phase = Phase::kRunning;
        jobs[index].started = kNow - std::chrono::minutes(30);
        trial.Assign({.job = index,
                      .holding = {.node = node,
                                  .devices = ((1u << devices_each) - 1) << i,
                                  .milli = kWholeDevice,
                                  .cpu_milli = 1'000}});
      }
    }
    trial.Commit();
  }

  Snapshot Take() const {
    Snapshot snapshot{.version = 1, .as_of = kNow, .cluster = cluster};
    for (JobIndex j = 0; j < jobs.bound(); ++j) {
      JobState job{.job = jobs[j].job, .phase = jobs[j].phase, .started = jobs[j].started};
      for (const MemberId id : state.of(j)) job.members.push_back({.holding = state.member(id).holding});
      snapshot.jobs.push_back(std::move(job));
    }
    return snapshot;
  }

  Cluster cluster;
  ClusterState state;
  ShapeTable shapes;
  JobTable jobs;
};

void Explain(benchmark::State& bench, int devices_each, uint32_t members, const char* level) {
  World world(devices_each);
  const JobIndex job = world.jobs.Add(Gang("waits", members, 8, level), 0);
  const ExplainInput input{.state = world.state,
                           .shapes = world.shapes,
                           .jobs = world.jobs,
                           .job = job,
                           .now = kNow,
                           .unknown_estimate = std::chrono::hours(24)};
  const ::bench::AllocationCounter count(bench);
  for (auto _ : bench) benchmark::DoNotOptimize(Explain(input));
}
BENCHMARK_CAPTURE(Explain, full_1, 1, 1u, "")->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(Explain, full_512, 1, 512u, "")->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(Explain, half_512, 4, 512u, "")->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(Explain, half_128_in_one_spine, 4, 128u, "spine")->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(Explain, never, 4, 10'001u, "")->Unit(benchmark::kMillisecond);

void WriteSnapshot(benchmark::State& bench) {
  const Snapshot snapshot = World(4).Take();
  size_t bytes = 0;
  for (auto _ : bench) bytes = io::WriteSnapshot(snapshot).size();
  bench.counters["bytes"] = static_cast<double>(bytes);
}
BENCHMARK(WriteSnapshot)->Unit(benchmark::kMillisecond);

void ReadSnapshot(benchmark::State& bench) {
  const std::string text = io::WriteSnapshot(World(4).Take());
  for (auto _ : bench) {
    if (!io::ReadSnapshot(text, "snapshot").value) bench.SkipWithError("was refused");
  }
}
BENCHMARK(ReadSnapshot)->Unit(benchmark::kMillisecond);

}  // namespace
