#include "gateway/control/planning/reserved_devices.h"

#include <gtest/gtest.h>

#include "scheduler/queues/queue_defects.h"

namespace gateway::control {
namespace {

using scheduler::Queue;

// Two nodes with eight h100 each, and one with four l4.
scheduler::Cluster ACluster() {
  scheduler::Cluster cluster;
  cluster.kinds = {{.name = "h100"}, {.name = "l4"}};
  cluster.types.resize(2);
  cluster.types[0].kind = 0;
  cluster.types[0].devices = 8;
  cluster.types[1].kind = 1;
  cluster.types[1].devices = 4;
  cluster.nodes.resize(3);
  cluster.nodes[2].type = 1;
  return cluster;
}

TEST(ReservedDevices, WithoutOneTheQueuesAreTheConfiguredOnes) {
  EXPECT_TRUE(WithReservations({}, {}, ACluster()).empty());
}

TEST(ReservedDevices, AreAQueueBesideTheDefaultOne) {
  const std::vector<ReservedDevices> reserved = {{"gr_1", "acme", "h100", 4}};
  const std::vector<Queue> queues = WithReservations({}, reserved, ACluster());
  ASSERT_EQ(queues.size(), 2u);
  EXPECT_EQ(queues[0].name, "default");
  EXPECT_EQ(queues[1].name, "gr_1");
  EXPECT_EQ(queues[1].deserved.at("h100"), 4'000);
  EXPECT_EQ(queues[1].lends->at("h100"), 0);
  EXPECT_FALSE(queues[1].borrows);
}

TEST(ReservedDevices, OtherQueuesShrinkInProportionIfTheyDeserveMoreThanIsLeft) {
  const std::vector<Queue> configured = {
      {.name = "a", .parent = {}, .deserved = {{"h100", 12'000}}},
      {.name = "a1",
       .parent = "a",
       .deserved = {{"h100", 6'000}},
       .lends = scheduler::DeviceQuota{{"h100", 6'000}}},
      {.name = "b", .parent = {}, .deserved = {{"h100", 4'000}, {"l4", 4'000}}}};
  const std::vector<ReservedDevices> reserved = {{"gr_1", "acme", "h100", 4}};
  const std::vector<Queue> queues = WithReservations(configured, reserved, ACluster());
  EXPECT_EQ(queues[0].deserved.at("h100"), 9'000);
  EXPECT_EQ(queues[1].deserved.at("h100"), 4'500);
  EXPECT_EQ(queues[1].lends->at("h100"), 4'500);
  EXPECT_EQ(queues[2].deserved.at("h100"), 3'000);
  EXPECT_EQ(queues[2].deserved.at("l4"), 4'000);
  EXPECT_EQ(scheduler::FirstDefect(queues, ACluster()), "");
}

TEST(ReservedDevices, OtherQueuesKeepWhatTheyDeserveWhereThereIsEnough) {
  const std::vector<Queue> configured = {{.name = "a", .parent = {}, .deserved = {{"*", 16'000}}}};
  const std::vector<ReservedDevices> reserved = {{"gr_1", "acme", "h100", 4}};
  EXPECT_EQ(WithReservations(configured, reserved, ACluster())[0].deserved.at("*"), 16'000);
  const std::vector<ReservedDevices> more = {{"gr_1", "acme", "h100", 12}};
  EXPECT_EQ(WithReservations(configured, more, ACluster())[0].deserved.at("*"), 8'000);
}

TEST(ReservedDevices, QuotasThatMixKindsStayWithinTheirParents) {
  const std::vector<Queue> configured = {{.name = "a", .parent = {}, .deserved = {{"*", 20'000}}},
                                         {.name = "a1", .parent = "a", .deserved = {{"h100", 15'000}}},
                                         {.name = "b", .parent = {}, .deserved = {{"l4", 1'000}}}};
  const std::vector<ReservedDevices> reserved = {{"gr_1", "acme", "h100", 3}, {"gr_2", "demo", "l4", 2}};
  EXPECT_EQ(scheduler::FirstDefect(WithReservations(configured, reserved, ACluster()), ACluster()), "");
}

TEST(ReservedDevices, OfAKindThatTheClusterNoLongerHasAreLeftOut) {
  const std::vector<ReservedDevices> reserved = {{"gr_1", "acme", "a100", 4}};
  EXPECT_EQ(WithReservations({}, reserved, ACluster()).size(), 1u);
}

}  // namespace
}  // namespace gateway::control
