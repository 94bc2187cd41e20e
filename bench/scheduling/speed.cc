// How fast the engine decides: one thread, no I/O, on 10,000 nodes of eight devices in leaf groups of 16.
#include <fmt/format.h>
#include <malloc.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <vector>

#include "bench/micro/allocations.h"
#include "bench/scheduling/openb_data.h"
#include "bench/scheduling/runs.h"
#include "bench/scheduling/section.h"
#include "bench/scheduling/workload.h"
#include "conf/text.h"
#include "scheduler/placement/mix_learner.h"
#include "scheduler/placement/placer.h"
#include "scheduler/placement/policies.h"
#include "scheduler/planner.h"
#include "scheduler/sim/until_allocated.h"

namespace bench::scheduling {
namespace {

using namespace scheduler;

constexpr int kNodes = 10'000;
constexpr conf::TimePoint kNow{};

double Seconds(std::chrono::steady_clock::duration length) {
  return std::chrono::duration<double>(length).count();
}

Ask WholeDevices(uint16_t count) {
  Ask ask;
  ask.devices = {{.count = count}};
  ask.cpu_milli = count * int64_t{12'000};
  ask.memory_mib = count * int64_t{131'072};
  return ask;
}

Job JobOf(uint64_t number, uint16_t devices, uint32_t members) {
  Job job;
  job.id = fmt::format("job-{}", number);
  job.queue = "all";
  job.roles = {{.name = "worker", .ask = WholeDevices(devices), .count = members, .min_count = members}};
  job.estimate = std::chrono::hours(1 + static_cast<int>(number % 7));
  return job;
}

Queue OneQueue() {
  Queue queue;
  queue.name = "all";
  return queue;
}

// Times of single operations, how much they allocated, and how many a second of CPU there were from beginning
// to end, with what was done between them.
class Samples {
 public:
  template <class Operation>
  void Time(const Operation& operation) {
    const uint64_t allocations = AllocationsSoFar();
    const auto start = std::chrono::steady_clock::now();
    operation();
    const double seconds = Seconds(std::chrono::steady_clock::now() - start);
    allocations_ += AllocationsSoFar() - allocations;
    seconds_.push_back(seconds);
  }

  nlohmann::json Report(const std::string& what) {
    const double per_second = static_cast<double>(seconds_.size()) / (ThreadCpuSeconds() - start_);
    std::ranges::sort(seconds_);
    const auto quantile = [&](double q) {
      return seconds_[static_cast<size_t>(q * static_cast<double>(seconds_.size() - 1))] * 1e6;
    };
    const auto count = static_cast<double>(seconds_.size());
    const double allocations = static_cast<double>(allocations_) / count;
    fmt::print("  {:<44} {:>11.0f}/s   p50 {:>9.1f} us   p99 {:>9.1f} us   {:>7.1f} allocations\n", what,
               per_second, quantile(0.5), quantile(0.99), allocations);
    return {{"per_second", per_second},
            {"p50_us", quantile(0.5)},
            {"p99_us", quantile(0.99)},
            {"allocations", allocations},
            {"samples", seconds_.size()}};
  }

 private:
  std::vector<double> seconds_;
  double start_ = ThreadCpuSeconds();
  uint64_t allocations_ = 0;
};

// A full cluster on which single members come and go: 1, 2, 4 and 8 devices, mostly 1. Timed is the decision
// with its commitment, not the departure that makes room for it.
nlohmann::json Decisions(const Cluster& cluster, std::string_view name, uint32_t count) {
  const PlacementPolicy& policy = *FindPlacementPolicy(name);
  ClusterState state(cluster, policy.needs_sizes);
  ShapeTable shapes(cluster);
  Placer placer(state, shapes, policy);
  MixLearner learner(cluster);
  Rng rng(1);
  std::array<std::vector<ShapeId>, 4> sizes;
  for (size_t s = 0; s < sizes.size(); ++s)
    sizes[s] = shapes.Resolve(WholeDevices(static_cast<uint16_t>(1 << s)), "");
  const auto pick = [&]() -> const std::vector<ShapeId>& {
    const uint64_t lot = rng.Uniform(20);
    return sizes[lot < 12 ? 0 : lot < 16 ? 1 : lot < 18 ? 2 : 3];
  };
  for (int i = 0; i < 1000; ++i) learner.Observe(shapes[pick().front()]);
  placer.SetMix(learner.mix());

  std::vector<MemberId> members;
  const auto place = [&](const std::vector<ShapeId>& ask) {
    const std::optional<Holding> holding = placer.Choose(ask, {}, rng);
    if (!holding) return false;
    Trial trial(state);
    members.push_back(trial.Assign({.job = 0, .rank = 0, .holding = *holding}));
    trial.Commit();
    return true;
  };
  const int64_t full = state.totals().capacity_milli * 95 / 100;
  nlohmann::json out;
  Samples filling;
  while (state.totals().allocated_milli < full) {
    filling.Time([&] { place(pick()); });
  }
  out["filling"] = filling.Report(fmt::format("{}: filling up", name));
  Samples steady;
  for (uint32_t i = 0; i < count; ++i) {
    while (state.totals().allocated_milli > full) {
      std::swap(members[rng.Uniform(members.size())], members.back());
      Trial trial(state);
      trial.Evict(members.back());
      trial.Commit();
      members.pop_back();
    }
    steady.Time([&] { place(pick()); });
  }
  out["steady"] = steady.Report(fmt::format("{}: full, members come and go", name));
  const ClusterState::Footprint bytes = state.footprint();
  out["bytes_per_node"] = bytes.nodes / cluster.nodes.size();
  out["bytes_per_member"] = bytes.members / std::max<size_t>(state.member_count(), 1);
  return out;
}

// openb's nodes, many times, filled by its own list: nearly every node is in a class of its own.
nlohmann::json Mixed(const Openb& openb, uint32_t times, std::string_view name) {
  Cluster cluster = openb.cluster;
  const size_t once = cluster.nodes.size();
  for (uint32_t t = 1; t < times; ++t) {
    for (size_t n = 0; n < once; ++n) {
      cluster.nodes.push_back(cluster.nodes[n]);
      cluster.nodes.back().name += fmt::format("-{}", t);
    }
  }
  const double start = ThreadCpuSeconds();
  const scheduler::sim::UntilAllocated run = scheduler::sim::FillUntilAllocated(
      cluster, openb.lists.front().asks,
      {.placement = std::string(name), .mix = scheduler::sim::MixFrom::kList});
  const double per_second = run.arrived / (ThreadCpuSeconds() - start);
  fmt::print("  {:<44} {:>11.0f}/s\n",
             fmt::format("{}: openb until full, {} nodes", name, cluster.nodes.size()), per_second);
  return {{"nodes", cluster.nodes.size()}, {"per_second", per_second}};
}

// A planner whose cluster is full of jobs of one node, with the same number of waiting jobs.
struct World {
  World(const Cluster& cluster, uint32_t running, uint32_t waiting)
      : planner(cluster, {OneQueue()}, Policy{}) {
    for (uint32_t j = 0; j < running; ++j) planner.Submit(JobOf(j, 8, 1), kNow);
    planner.Run(kNow, rng);
    for (uint32_t j = 0; j < waiting; ++j) {
      planner.Submit(JobOf(running + j, static_cast<uint16_t>(1 << j % 4), 1 + j % 3), kNow);
    }
  }
  Planner planner;
  Rng rng{1};
};

// The size of the whole heap, so that nothing is missed.
size_t HeapBytes() {
  const struct mallinfo2 heap = mallinfo2();
  return heap.uordblks + heap.hblkhd;
}

// The planner's memory for a waiting job, and the additional memory for a running one.
nlohmann::json BytesPerJob(const Cluster& cluster) {
  constexpr uint32_t kJobs = 10'000;
  Planner planner(cluster, {OneQueue()}, Policy{});
  Rng rng(1);
  const size_t empty = HeapBytes();
  for (uint32_t j = 0; j < kJobs; ++j) planner.Submit(JobOf(j, 1, 1), kNow);
  const size_t waiting = HeapBytes();
  planner.Run(kNow, rng);
  const size_t running = HeapBytes();
  nlohmann::json out = {{"waits", (waiting - empty) / kJobs}, {"runs", (running - empty) / kJobs}};
  fmt::print("  bytes: {} a job that waits, {} one that runs with a member\n", out["waits"].get<size_t>(),
             out["runs"].get<size_t>());
  return out;
}

nlohmann::json Cycles(const Cluster& cluster, uint32_t rounds) {
  nlohmann::json out;
  {
    World world(cluster, kNodes, 10'000);
    Samples samples;
    conf::TimePoint now = kNow;
    for (uint32_t r = 0; r < rounds; ++r) {
      now += std::chrono::seconds(1);
      for (uint32_t e = 0; e < 8; ++e) {
        const JobIndex ended = world.planner.jobs().Find(fmt::format("job-{}", r * 8 + e));
        if (ended != kNone) world.planner.Ended(ended, now);
      }
      samples.Time([&] { world.planner.Run(now, world.rng); });
    }
    out["cycle_of_10000_pending"] = samples.Report("planning cycle, 10,000 jobs wait, 8 nodes freed");
  }
  {
    World world(cluster, kNodes / 2, 0);
    Samples samples;
    for (uint32_t r = 0; r < rounds; ++r) {
      const JobIndex gang = world.planner.Submit(JobOf(1'000'000 + r, 8, 512), kNow);
      samples.Time([&] { world.planner.Run(kNow, world.rng); });
      world.planner.Ended(gang, kNow);
    }
    out["gang_of_512"] = samples.Report("planning cycle that places a gang of 512 nodes");
  }
  {
    World world(cluster, kNodes, 0);
    Samples samples;
    for (uint32_t r = 0; r < rounds; ++r) {
      const JobIndex job = world.planner.Submit(JobOf(1'000'000 + r, 8, 512), kNow);
      samples.Time([&] { world.planner.Run(kNow, world.rng); });
      world.planner.Ended(job, kNow);
    }
    out["unschedulable"] = samples.Report("planning cycle that finds no room, with the reason");
  }
  return out;
}

}  // namespace

absl::Status RunSpeed(const Options& options, nlohmann::json& out) {
  const Cluster cluster = EightWayCluster(options.quick ? 1'000 : kNodes, 16, 16);
  fmt::print("\nspeed: {} nodes, {} devices, one thread\n", cluster.nodes.size(), cluster.nodes.size() * 8);
  for (const std::string_view policy : {"binpack", "e-binpack", "default", "fgd"}) {
    out["decisions"][std::string(policy)] = Decisions(cluster, policy, options.quick ? 5'000 : 200'000);
  }
  const nlohmann::json& ours = out["decisions"]["default"];
  fmt::print("  bytes: {} a node, {} a member\n", ours["bytes_per_node"].get<size_t>(),
             ours["bytes_per_member"].get<size_t>());
  out["bytes_per_job"] = BytesPerJob(cluster);
  if (const absl::StatusOr<Openb> openb = LoadOpenb(options.traces + "/openb"); openb.ok()) {
    for (const std::string_view policy : {"default", "fgd"}) {
      for (const uint32_t times : {1u, 8u}) {
        out["mixed"][std::string(policy)].push_back(Mixed(*openb, times, policy));
      }
    }
  } else {
    fmt::print(stderr, "speed: openb is left out: {}\n", conf::Std(openb.status().message()));
  }
  if (!options.quick) out["planner"] = Cycles(cluster, 20);
  return absl::OkStatus();
}

}  // namespace bench::scheduling
