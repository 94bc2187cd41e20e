#include "scheduler/placement/empty_cluster.h"

#include <gtest/gtest.h>

namespace scheduler {
namespace {

Cluster TwoLeaves() {
  Cluster cluster;
  cluster.kinds = {{.name = "h100"}};
  cluster.types = {{.name = "box", .kind = 0, .devices = 8}};
  for (const char* name : {"n1", "n2", "n3", "n4"}) cluster.nodes.push_back({.name = name});
  GroupIntoLeaves(cluster, 2, 0);
  return cluster;
}

Job Gang(uint32_t members, uint16_t devices, std::string within = {}) {
  Job job;
  job.id = "gang";
  job.roles = {
      {.name = "member", .ask = {.devices = {{.count = devices}}}, .count = members, .min_count = members}};
  job.topology = {.level = within, .required = !within.empty()};
  return job;
}

TEST(EmptyCluster, FitsAJobAsIfNothingElseRan) {
  EmptyCluster empty(TwoLeaves());
  EXPECT_TRUE(empty.Holds(Gang(4, 8)));
  EXPECT_TRUE(empty.Holds(Gang(4, 8))) << "and as often as it is asked";
  EXPECT_FALSE(empty.Holds(Gang(5, 8)));
  EXPECT_FALSE(empty.Holds(Gang(1, 9)));
  EXPECT_TRUE(empty.Holds(Gang(2, 8, "leaf")));
  EXPECT_FALSE(empty.Holds(Gang(3, 8, "leaf")));
  EXPECT_TRUE(empty.Holds(Gang(2, 4, "node")));
  EXPECT_FALSE(empty.Holds(Gang(3, 4, "node")));
}

TEST(EmptyCluster, CountsUnhealthyNodesAsHealthy) {
  Cluster cluster = TwoLeaves();
  for (Node& node : cluster.nodes) node.health = Health::kQuarantined;
  EXPECT_TRUE(EmptyCluster(cluster).Holds(Gang(4, 8)));
}

}  // namespace
}  // namespace scheduler
