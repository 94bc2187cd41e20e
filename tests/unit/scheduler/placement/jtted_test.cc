#include "scheduler/placement/jtted.h"
#include "scheduler/placement/policies.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/unit/scheduler/clusters.h"

namespace scheduler {
namespace {

using namespace testing;

struct World {
  explicit World(Cluster c) : cluster(std::move(c)), state(cluster), shapes(cluster), jobs(shapes) {}

  // One member with `devices` on each of the nodes.
  Jtted On(const std::vector<NodeId>& nodes, uint16_t devices = 8) {
    Job job;
    job.roles = {{.ask = Devices(devices), .count = static_cast<uint32_t>(nodes.size())}};
    const JobIndex index = jobs.Add(job, 0);
    Placer placer(state, shapes, *FindPlacementPolicy("binpack"));
    JttedEstimator estimator(state, shapes);
    Trial trial(state);
    for (uint32_t rank = 0; rank < nodes.size(); ++rank) {
      const auto holding = placer.On(nodes[rank], jobs[index].shapes[0]);
      EXPECT_TRUE(holding.has_value());
      trial.Assign({.job = index, .rank = rank, .holding = *holding});
    }
    const Jtted jtted = estimator.Of(index, jobs[index]);
    jobs.Erase(index);
    return jtted;
  }

  Cluster cluster;
  ClusterState state;
  ShapeTable shapes;
  JobTable jobs;
};

TEST(Jtted, IsOneAtTheIdeal) {
  World world(EightWay(32, 4, 4));
  EXPECT_EQ(world.On({3}).ratio, 1);
  EXPECT_EQ(world.On({3}, 1).ratio, 1);
  EXPECT_EQ(world.On({4, 5, 6, 7}).ratio, 1);
  EXPECT_DOUBLE_EQ(world.On({16, 17, 18, 19, 20, 21, 22, 23, 28, 29}).ratio, 1);
}

TEST(Jtted, IsTwentySevenPercentForMembersOfOneDeviceAcrossLeaves) {
  Cluster cluster = EightWay(8, 4);
  cluster.types[0].devices = 1;
  World world(cluster);
  const Jtted jtted = world.On({0, 4}, 1);
  EXPECT_DOUBLE_EQ(jtted.ratio, 1.27);
  EXPECT_EQ(jtted.leaves, 2u);
  EXPECT_EQ(jtted.ideal_leaves, 1u);
}

TEST(Jtted, CountsEachPairWhereItMeets) {
  World world(EightWay(32, 4, 4));
  // Of the 120 pairs of 16 devices 56 meet on their node.
  const double within = 56.0 / 9;
  EXPECT_NEAR(world.On({0, 16}).ratio, (within + 64 * 1.27 * 1.27) / (within + 64), 1e-12);
  // Four nodes in one leaf, one beside it, one under another spine; at best all are under one spine.
  const double here = 6 * 28 / 9.0 + 384 + 256 * 1.27 + 320 * 1.27 * 1.27;
  const double best = 6 * 28 / 9.0 + 384 + 64 + 512 * 1.27;
  EXPECT_NEAR(world.On({0, 1, 2, 3, 4, 31}).ratio, here / best, 1e-12);
}

TEST(Jtted, GrowsWithTheNodesThatAGangIsScatteredOver) {
  World world(EightWay(16, 8));
  const Jtted two = world.On({0, 0, 1, 1}, 4);
  const Jtted four = world.On({0, 1, 2, 3}, 4);
  EXPECT_EQ(two.ratio, 1);
  EXPECT_EQ(two.ideal_nodes, 2u);
  EXPECT_EQ(four.nodes, 4u);
  EXPECT_EQ(four.ideal_nodes, 2u);
  EXPECT_GT(four.ratio, 1.3);
}

TEST(Jtted, TheIdealIgnoresFaultsAndCurrentUse) {
  World world(EightWay(8, 4));
  world.state.SetHealth(1, Health::kDraining);
  const Jtted jtted = world.On({0, 2, 3, 5});
  EXPECT_EQ(jtted.ideal_leaves, 1u);
  EXPECT_GT(jtted.ratio, 1);
}

// Gangs of 256 to 2048 devices and small jobs come and go on 2,048 nodes that are nearly full.
TEST(Jtted, StaysNearOneForLargeGangsUnderLoad) {
  World world(EightWay(2048, 16, 8));
  Placer placer(world.state, world.shapes, *FindPlacementPolicy("e-binpack"));
  GangPlacer gangs(world.state, world.shapes);
  JttedEstimator estimator(world.state, world.shapes);
  Rng rng(3);
  std::vector<JobIndex> running;
  std::vector<double> all;
  std::vector<double> largest;
  int64_t waited = 0;
  for (int step = 0; step < 3'000; ++step) {
    Job job;
    job.id = std::to_string(step);
    const uint32_t sizes[] = {1, 1, 2, 4, 32, 64, 128, 256};
    const uint32_t members = sizes[rng.Uniform(std::size(sizes))];
    const auto devices = static_cast<uint16_t>(members < 32 ? 1 + rng.Uniform(8) : 8);
    job.roles = {{.ask = Devices(devices), .count = members, .min_count = members}};
    const JobIndex index = world.jobs.Add(job, 0);
    while (true) {
      Trial trial(world.state);
      const GangResult result = gangs.Place(trial, placer, index, world.jobs[index], nullptr, rng);
      if (!result.placed.empty()) {
        trial.Commit();
        break;
      }
      ++waited;
      const size_t at = rng.Uniform(running.size());
      trial.EvictJob(running[at]);
      trial.Commit();
      world.jobs.Erase(running[at]);
      running.erase(running.begin() + static_cast<std::ptrdiff_t>(at));
    }
    running.push_back(index);
    if (members < 32 || waited < 100) continue;
    all.push_back(estimator.Of(index, world.jobs[index]).ratio);
    if (members == 256) largest.push_back(all.back());
  }
  const auto quantile = [](std::vector<double>& values, double q) {
    std::ranges::sort(values);
    return values[static_cast<size_t>(q * static_cast<double>(values.size() - 1))];
  };
  RecordProperty("median", std::to_string(quantile(all, 0.5)));
  RecordProperty("p90", std::to_string(quantile(all, 0.9)));
  RecordProperty("largest_median", std::to_string(quantile(largest, 0.5)));
  RecordProperty("largest_p90", std::to_string(quantile(largest, 0.9)));
  ASSERT_GT(largest.size(), 100u);
  EXPECT_LE(quantile(all, 0.5), 1.02);
  EXPECT_LE(quantile(largest, 0.5), 1.05);
}

}  // namespace
}  // namespace scheduler
