// Whole devices only: the default against e-binpack, on nodes of eight.
#include <gtest/gtest.h>

#include <array>
#include <queue>
#include <tuple>

#include "scheduler/placement/mix_learner.h"
#include "scheduler/placement/placer.h"
#include "scheduler/placement/policies.h"
#include "tests/unit/scheduler/clusters.h"

namespace scheduler {
namespace {

using namespace testing;

struct Packing {
  double fragmented = 0;  // mean share of nodes that are partly taken
  double allocated = 0;   // mean share of devices
  int large = 0;          // jobs of a whole node and more that found room at once
};

// Jobs of one to 32 devices, sized as in Philly, come faster than the cluster can hold them, stay for a
// while, and leave at once when there is no room.
Packing Pack(std::string_view name, uint64_t seed, bool with_cpu) {
  const Cluster cluster = EightWay(56);
  const PlacementPolicy& policy = *FindPlacementPolicy(name);
  ClusterState state(cluster, policy.needs_sizes);
  ShapeTable shapes(cluster);
  Placer placer(state, shapes, policy);
  MixLearner learner(cluster);
  placer.SetMix(learner.mix());
  Rng arrivals(seed);
  Rng ties(seed + 1);

  constexpr std::array<std::tuple<int, uint16_t, int>, 6> kSizes = {
      {{70, 1, 1}, {80, 2, 1}, {88, 4, 1}, {96, 8, 1}, {99, 8, 2}, {100, 8, 4}}};
  using Departure = std::pair<int, JobIndex>;
  std::priority_queue<Departure, std::vector<Departure>, std::greater<>> departures;
  Packing packing;
  constexpr int kArrivals = 6000;
  constexpr int kWarmUp = 1000;
  for (int now = 0; now < kArrivals; ++now) {
    Trial trial(state);
    while (!departures.empty() && departures.top().first <= now) {
      trial.EvictJob(departures.top().second);
      departures.pop();
    }
    const int lot = static_cast<int>(arrivals.Uniform(100));
    size_t s = 0;
    while (lot >= std::get<0>(kSizes[s])) ++s;
    const auto [below, devices, nodes] = kSizes[s];
    const int stays = 60 + static_cast<int>(arrivals.Uniform(400));
    Ask ask = Devices(devices);
    if (!with_cpu) ask.cpu_milli = ask.memory_mib = 0;
    const std::vector<ShapeId> shape = shapes.Resolve(ask, "");
    if (learner.Observe(shapes[shape.front()], static_cast<uint64_t>(nodes))) placer.SetMix(learner.mix());
    const Trial::Mark mark = trial.mark();
    int placed = 0;
    while (placed < nodes) {
      const std::optional<Holding> holding = placer.Choose(shape, {}, ties);
      if (!holding) break;
      trial.Assign(
          {.job = static_cast<JobIndex>(now), .rank = static_cast<uint32_t>(placed++), .holding = *holding});
    }
    if (placed < nodes) {
      trial.Rollback(mark);
    } else {
      departures.emplace(now + stays, now);
      packing.large += now >= kWarmUp && devices == 8;
    }
    trial.Commit();
    if (now < kWarmUp) continue;
    packing.fragmented += state.totals().fragmented_nodes / 56.0 / (kArrivals - kWarmUp);
    packing.allocated += static_cast<double>(state.totals().allocated_milli) /
                         static_cast<double>(state.totals().capacity_milli) / (kArrivals - kWarmUp);
  }
  return packing;
}

TEST(DefaultPlacement, PacksWholeDevicesAtLeastAsWellAsEBinpack) {
  for (const bool with_cpu : {false, true}) {
    Packing ours;
    Packing theirs;
    for (uint64_t seed = 1; seed <= 4; ++seed) {
      const auto add = [](Packing& sum, const Packing& one) {
        sum.fragmented += one.fragmented / 4;
        sum.allocated += one.allocated / 4;
        sum.large += one.large;
      };
      add(ours, Pack("default", seed, with_cpu));
      add(theirs, Pack("e-binpack", seed, with_cpu));
    }
    SCOPED_TRACE(with_cpu ? "asks for CPU, too" : "asks for devices only");
    EXPECT_LE(ours.fragmented, theirs.fragmented + 0.002);
    EXPECT_GE(ours.allocated, theirs.allocated - 0.002);
    EXPECT_GE(ours.large, theirs.large);
  }
}

}  // namespace
}  // namespace scheduler
