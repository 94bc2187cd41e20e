// How full the default placement policy gets a cluster must not hang on what its nodes are called.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <vector>

#include "scheduler/rng.h"
#include "scheduler/sim/until_allocated.h"

namespace scheduler::sim {
namespace {

constexpr uint64_t kSeeds = 3;
constexpr uint64_t kNamings = 4;

// Three node types of two kinds, all mixed up.
Cluster MixedCluster(Rng& rng) {
  Cluster cluster;
  cluster.kinds = {{.name = "a10", .memory_mib = 24'576}, {.name = "v100", .memory_mib = 32'768}};
  cluster.types = {{.name = "two", .cpu_milli = 64'000, .memory_mib = 262'144, .kind = 1, .devices = 2},
                   {.name = "four", .cpu_milli = 64'000, .memory_mib = 262'144, .kind = 0, .devices = 4},
                   {.name = "eight", .cpu_milli = 96'000, .memory_mib = 524'288, .kind = 1, .devices = 8}};
  for (int n = 0; n < 200; ++n) {
    cluster.nodes.push_back(
        {.name = fmt::format("node-{}", n), .type = static_cast<TypeId>(rng.Uniform(cluster.types.size()))});
  }
  GroupIntoLeaves(cluster, 10);
  return cluster;
}

// Shares of a device, whole ones and several, each with cores and memory of its own; some need none.
std::vector<Ask> MixedAsks(Rng& rng) {
  constexpr std::array<uint16_t, 4> kShares = {200, 400, 500, 750};
  constexpr std::array<uint16_t, 4> kCounts = {1, 1, 2, 8};
  std::vector<Ask> asks(1500);
  for (Ask& ask : asks) {
    ask.cpu_milli = 1000 * static_cast<int64_t>(2 + rng.Uniform(11));
    ask.memory_mib = 4096 * static_cast<int64_t>(1 + rng.Uniform(8));
    const uint64_t lot = rng.Uniform(20);
    if (lot < 2) continue;
    ask.devices.resize(1);
    if (lot < 9) {
      ask.devices[0].milli = kShares[rng.Uniform(kShares.size())];
    } else {
      ask.devices[0].count = kCounts[rng.Uniform(kCounts.size())];
    }
  }
  return asks;
}

TEST(Placement, NodeNamesHardlyInfluenceHowFullAClusterGets) {
  Rng rng(5);
  const Cluster cluster = MixedCluster(rng);
  const std::vector<Ask> asks = MixedAsks(rng);
  std::vector<double> at_100;
  std::vector<double> at_130;
  for (uint64_t naming = 0; naming < kNamings; ++naming) {
    double sum_100 = 0;
    double sum_130 = 0;
    for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
      const UntilAllocated run = FillUntilAllocated(cluster, asks, {.seed = seed, .naming = naming});
      sum_100 += run.At(100);
      sum_130 += run.At(130);
    }
    at_100.push_back(sum_100 / kSeeds);
    at_130.push_back(sum_130 / kSeeds);
  }
  for (const std::vector<double>& readings : {at_100, at_130}) {
    const auto [least, most] = std::ranges::minmax(readings);
    EXPECT_GT(least, 80);
    EXPECT_LT(least, 100);
    EXPECT_LE(most - least, 0.2);
  }
}

}  // namespace
}  // namespace scheduler::sim
