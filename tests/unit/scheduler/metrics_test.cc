#include "scheduler/metrics.h"

#include <gtest/gtest.h>

#include "tests/unit/scheduler/clusters.h"

namespace scheduler {
namespace {

TEST(Metrics, SizeClassesBeginAtTheirBounds) {
  const std::pair<int64_t, size_t> cases[] = {{0, 0},   {7, 0},   {8, 1},    {63, 1},   {64, 2},
                                              {255, 2}, {256, 3}, {1023, 3}, {1024, 4}, {9999, 4}};
  for (const auto& [devices, size] : cases) EXPECT_EQ(SizeClass(devices * kWholeDevice), size) << devices;
}

TEST(Metrics, AllocationAndFragmentationByHand) {
  const ClusterTotals totals{
      .device_nodes = 4, .fragmented_nodes = 1, .capacity_milli = 32'000, .allocated_milli = 12'000};
  EXPECT_DOUBLE_EQ(AllocationRate(totals), 0.375);
  EXPECT_DOUBLE_EQ(FragmentationRate(totals), 0.25);
  EXPECT_EQ(AllocationRate({}), 0);
  EXPECT_EQ(FragmentationRate({}), 0);
}

TEST(Metrics, QuantilesLieBetweenNeighbours) {
  const double values[] = {1, 2, 3, 5};
  EXPECT_DOUBLE_EQ(Quantile(values, 0), 1);
  EXPECT_DOUBLE_EQ(Quantile(values, 0.5), 2.5);
  EXPECT_DOUBLE_EQ(Quantile(values, 0.9), 4.4);
  EXPECT_DOUBLE_EQ(Quantile(values, 1), 5);
  EXPECT_EQ(Quantile({}, 0.5), 0);
}

TEST(Metrics, JainIndexIsOneForEqualAndOneNthForOneThatHasAll) {
  EXPECT_DOUBLE_EQ(JainIndex(std::vector<double>{3, 3, 3}), 1);
  EXPECT_DOUBLE_EQ(JainIndex(std::vector<double>{8, 0, 0, 0}), 0.25);
  EXPECT_DOUBLE_EQ(JainIndex(std::vector<double>{1, 3}), 0.8);
  EXPECT_EQ(JainIndex({}), 1);
}

TEST(Metrics, SlowdownOfAShortJobIsBounded) {
  EXPECT_DOUBLE_EQ(BoundedSlowdown(100, 50), 2);
  EXPECT_DOUBLE_EQ(BoundedSlowdown(100, 1), 10);
  EXPECT_DOUBLE_EQ(BoundedSlowdown(1, 1), 1);
}

TEST(Metrics, FragmentedShareCountsDevicesThatTheMixCannotUse) {
  const Cluster cluster = testing::EightWay(2);
  ClusterState state(cluster);
  ShapeTable shapes(cluster);
  Trial trial(state);
  // Six of the eight devices of node 0, and half of a seventh.
  trial.Assign({.job = 0, .holding = {.node = 0, .devices = 0b111111, .milli = kWholeDevice}});
  trial.Assign({.job = 1, .holding = {.node = 0, .devices = 0b1000000, .milli = 500}});
  trial.Commit();
  const ShapeId four = shapes.Resolve(testing::Devices(4), {})[0];
  const ShapeId one = shapes.Resolve(testing::Devices(1), {})[0];
  const DemandMix mix{.items = {{shapes[four], 0.25}, {shapes[one], 0.75}}, .version = 1};
  // Four devices do not fit on node 0: its 1.5 free ones are lost to them. One fits there, but not into the
  // half. Node 1 is free for both: (0.25 · 1.5 + 0.75 · 0.5) / 16.
  EXPECT_DOUBLE_EQ(FragmentedShare(state, mix), 0.75 / 16);
}

}  // namespace
}  // namespace scheduler
