#include "bench/scheduling/offline_bound.h"

#include <gtest/gtest.h>

#include "scheduler/rng.h"
#include "scheduler/sim/until_allocated.h"

namespace bench::scheduling {
namespace {

using scheduler::Ask;
using scheduler::Cluster;

constexpr uint64_t kSeed = 42;

Cluster NodesOf(uint32_t nodes, uint8_t devices, int64_t cpu_milli) {
  Cluster cluster;
  cluster.kinds = {{.name = "h100"}};
  cluster.types = {
      {.name = "n", .cpu_milli = cpu_milli, .memory_mib = 1 << 20, .kind = 0, .devices = devices}};
  cluster.fabric = scheduler::FlatFabric();
  for (uint32_t n = 0; n < nodes; ++n) cluster.nodes.push_back({.name = std::to_string(n)});
  return cluster;
}

Ask Share(uint16_t milli) {
  return {.devices = {{.milli = milli}}, .cpu_milli = 1000};
}

TEST(OfflineBound, KnowsThatSharesDoNotPairOff) {
  const std::vector<Ask> asks(200, Share(600));
  const auto bound = OfflineBoundOf(NodesOf(20, 4, 96'000), asks, kSeed, 2);
  ASSERT_TRUE(bound.ok());
  EXPECT_NEAR(bound->at_100, 60, 0.1);
  EXPECT_NEAR(bound->at_130, 60, 0.1);
}

TEST(OfflineBound, IsWhatTheCoresLeave) {
  std::vector<Ask> asks(400, Share(500));
  for (Ask& ask : asks) ask.cpu_milli = 8'000;
  const auto bound = OfflineBoundOf(NodesOf(20, 4, 32'000), asks, kSeed, 1);
  ASSERT_TRUE(bound.ok());
  EXPECT_NEAR(bound->at_100, 50, 0.1);
}

TEST(OfflineBound, IgnoresKindsAndSizesThatNoNodeHas) {
  std::vector<Ask> asks(100, Ask{.devices = {{.count = 1}}});
  for (size_t i = 0; i < asks.size(); i += 2) asks[i].devices[0].count = 8;
  const auto bound = OfflineBoundOf(NodesOf(20, 4, 32'000), asks, kSeed, 1);
  ASSERT_TRUE(bound.ok());
  EXPECT_LT(bound->at_130, 30);
  EXPECT_GT(bound->at_130, 5);
}

TEST(OfflineBound, NoPolicyExceedsIt) {
  const Cluster cluster = NodesOf(60, 8, 64'000);
  scheduler::Rng rng(3);
  std::vector<Ask> asks(900);
  for (Ask& ask : asks) {
    const uint64_t lot = rng.Uniform(10);
    if (lot < 7) {
      ask.devices = {{.milli = static_cast<uint16_t>(100 * (1 + rng.Uniform(9)))}};
    } else if (lot < 9) {
      ask.devices = {{.count = static_cast<uint16_t>(1 + rng.Uniform(4))}};
    }
    ask.cpu_milli = static_cast<int64_t>(rng.Uniform(12)) * 1000;
  }
  const auto bound = OfflineBoundOf(cluster, asks, kSeed, 1);
  ASSERT_TRUE(bound.ok());
  for (const char* placement : {"random", "best-fit", "fgd", "default"}) {
    const auto run =
        scheduler::sim::FillUntilAllocated(cluster, asks, {.placement = placement, .seed = kSeed});
    EXPECT_LE(run.At(100), bound->at_100 + 1e-6) << placement;
    EXPECT_LE(run.At(130), bound->at_130 + 1e-6) << placement;
    EXPECT_GT(run.At(130), bound->at_130 - 20) << placement;
  }
}

TEST(OfflineBound, SharesThatCombineInTooManyWaysAreRefused) {
  std::vector<Ask> asks;
  for (uint16_t milli = 20; milli < 400; ++milli) asks.push_back(Share(milli));
  EXPECT_FALSE(OfflineBoundOf(NodesOf(20, 4, 96'000), asks, kSeed, 1).ok());
}

}  // namespace
}  // namespace bench::scheduling
