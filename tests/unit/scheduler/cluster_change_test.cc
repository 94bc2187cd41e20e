// Nodes that join, leave and change, while jobs hold devices.
#include "scheduler/cluster_change.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "scheduler/planner.h"
#include "tests/unit/scheduler/clusters.h"

namespace scheduler {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

const conf::TimePoint kStart = conf::FromUnixMicros(1'700'000'000'000'000);

// Nodes of so many devices each, by name.
Cluster Named(const std::vector<std::pair<std::string, uint8_t>>& nodes, const std::string& kind = "h100") {
  Cluster cluster;
  cluster.fabric = FlatFabric();
  cluster.kinds = {{.name = kind, .memory_mib = 81920}};
  for (const auto& [name, devices] : nodes) {
    cluster.nodes.push_back({.name = name, .type = static_cast<TypeId>(cluster.types.size())});
    cluster.types.push_back(
        {.name = name, .cpu_milli = 64'000, .memory_mib = 1 << 20, .kind = 0, .devices = devices});
  }
  return cluster;
}

TEST(ClusterChange, TheSameNodesChangeNothing) {
  const Cluster cluster = Named({{"a", 8}, {"b", 4}});
  const ClusterChange change = ChangeCluster(cluster, cluster, {});
  EXPECT_FALSE(change.any());
  EXPECT_THAT(change.places, ElementsAre(0, 1));
  EXPECT_EQ(FirstDefect(change.cluster), "");
}

TEST(ClusterChange, CountableResourcesStayWhereTheLauncherFindsTheNodes) {
  Cluster before = Named({{"a", 8}});
  before.resources = {{"matlab", 3}};
  const ClusterChange change = ChangeCluster(before, Named({{"a", 8}, {"b", 8}}), {});
  ASSERT_EQ(change.cluster.resources.size(), 1u);
  EXPECT_EQ(change.cluster.resources[0].count, 3u);
}

TEST(ClusterChange, NodesAreNumberedByTheirNames) {
  const ClusterChange change =
      ChangeCluster(Named({{"b", 8}, {"d", 8}}), Named({{"d", 8}, {"a", 8}, {"b", 4}}), {});
  EXPECT_THAT(change.joined, ElementsAre("a"));
  EXPECT_THAT(change.left, IsEmpty());
  EXPECT_THAT(change.changed, ElementsAre("b"));
  EXPECT_THAT(change.places, ElementsAre(1, 2));
  EXPECT_EQ(change.cluster.nodes[2].name, "d");
  EXPECT_EQ(FirstDefect(change.cluster), "");
}

TEST(ClusterChange, ANodeThatLeftStaysWhileSomethingIsHeldThere) {
  const Cluster before = Named({{"a", 8}, {"b", 8}});
  NodeUses uses;
  AddUse(uses, {.node = 0, .devices = 0b11, .milli = kWholeDevice});
  const ClusterChange kept = ChangeCluster(before, Named({{"b", 8}}), uses);
  EXPECT_FALSE(kept.any());
  EXPECT_THAT(kept.held_back, ElementsAre("a"));
  EXPECT_EQ(kept.cluster.type_of(0).devices, 8);
  const ClusterChange gone = ChangeCluster(kept.cluster, Named({{"b", 8}}), {});
  EXPECT_THAT(gone.left, ElementsAre("a"));
  EXPECT_THAT(gone.places, ElementsAre(kNone, 0));
}

TEST(ClusterChange, ANodeWithFewerDevicesKeepsThoseThatAreHeld) {
  const Cluster before = Named({{"a", 8}});
  NodeUses uses;
  AddUse(uses, {.node = 0, .devices = 0b10'0000, .milli = kWholeDevice});
  const ClusterChange change = ChangeCluster(before, Named({{"a", 4}}), uses);
  EXPECT_THAT(change.changed, ElementsAre("a"));
  EXPECT_THAT(change.held_back, ElementsAre("a"));
  EXPECT_EQ(change.cluster.type_of(0).devices, 6);
  EXPECT_EQ(ChangeCluster(change.cluster, Named({{"a", 4}}), {}).cluster.type_of(0).devices, 4);
}

TEST(ClusterChange, ANodeKeepsItsKindWhileOneOfItsDevicesIsHeld) {
  const Cluster before = Named({{"a", 8}});
  NodeUses uses;
  AddUse(uses, {.node = 0, .devices = 1, .milli = kWholeDevice});
  const Cluster other = Named({{"a", 8}}, "a100");
  const ClusterChange change = ChangeCluster(before, other, uses);
  EXPECT_EQ(change.cluster.kinds[change.cluster.type_of(0).kind].name, "h100");
  EXPECT_THAT(change.held_back, ElementsAre("a"));
  EXPECT_EQ(FirstDefect(change.cluster), "");
  const ClusterChange free = ChangeCluster(change.cluster, other, {});
  EXPECT_EQ(free.cluster.kinds[free.cluster.type_of(0).kind].name, "a100");
}

TEST(ClusterChange, RunningJobsKeepTheirDevicesInTheNewCluster) {
  const Cluster before = Named({{"b", 8}});
  Planner planner(before, {}, Policy());
  Job job;
  job.id = "runs";
  job.submitted = kStart;
  job.roles = {{.name = "worker", .ask = testing::Devices(4)}};
  planner.Submit(job, kStart);
  Rng rng = CycleRng(1, planner.version());
  ASSERT_EQ(planner.Run(kStart, rng).actions.size(), 1u);

  Snapshot snapshot = planner.TakeSnapshot(kStart);
  NodeUses uses;
  for (const JobState& state : snapshot.jobs) {
    for (const MemberAt& member : state.members) AddUse(uses, member.holding);
  }
  const ClusterChange change = ChangeCluster(before, Named({{"a", 8}, {"b", 8}}), uses);
  ApplyTo(snapshot, change);
  Planner next(snapshot, Policy());
  EXPECT_EQ(next.state().Check(), "");
  EXPECT_EQ(next.state().on(0).size(), 0u);
  EXPECT_EQ(next.state().on(1).size(), 1u);
  EXPECT_EQ(next.state().totals().allocated_milli, 4 * kWholeDevice);
  EXPECT_EQ(next.state().totals().capacity_milli, 16 * kWholeDevice);
}

}  // namespace
}  // namespace scheduler
