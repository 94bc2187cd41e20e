#include "scheduler/placement/devices.h"

#include <gtest/gtest.h>

#include "scheduler/placement/placer.h"
#include "scheduler/placement/policies.h"
#include "tests/unit/scheduler/clusters.h"

namespace scheduler {
namespace {

using namespace testing;

// Two boards of four linked devices in every node.
Cluster Boards(int nodes) {
  Cluster cluster = EightWay(nodes);
  cluster.types[0].link_domain = cluster.types[0].numa = {0, 0, 0, 0, 1, 1, 1, 1};
  return cluster;
}

struct World {
  explicit World(Cluster c, std::string_view policy = "e-binpack")
      : cluster(std::move(c)),
        state(cluster),
        shapes(cluster),
        trial(state),
        placer(state, shapes, *FindPlacementPolicy(policy)) {}

  void Hold(NodeId node, uint32_t devices) {
    trial.Assign({.holding = {.node = node, .devices = devices, .milli = kWholeDevice}});
  }
  Holding Choose(const Ask& ask) { return *placer.Choose(shapes.Resolve(ask, ""), {}, rng); }

  Cluster cluster;
  ClusterState state;
  ShapeTable shapes;
  Trial trial;
  Placer placer;
  Rng rng{1};
};

TEST(Devices, AreLinkedToEachOther) {
  World world(Boards(1));
  world.Hold(0, 0b00000001);
  EXPECT_EQ(world.Choose(Devices(4)).devices, 0xf0u);
  EXPECT_EQ(world.Choose(Devices(2)).devices, 0b00000110u);
}

TEST(Devices, LinkedDevicesWinOverATighterNodeWithoutLinks) {
  World world(Boards(2));
  world.Hold(0, 0b01110111);  // one left on each board
  world.Hold(1, 0b00001111);
  EXPECT_EQ(world.Choose(Devices(2)).node, 1u);
  EXPECT_EQ(world.Choose(Devices(1)).node, 0u);
  world.Hold(1, 0b11000000);
  EXPECT_EQ(world.Choose(Devices(2)).node, 1u);
  world.Hold(1, 0b00110000);
  EXPECT_EQ(world.Choose(Devices(2)).node, 0u) << "soft: better apart than not at all";
}

TEST(Devices, MatterByPlaceOnlyWhereTheTypeHasATopology) {
  World flat(EightWay(2));
  flat.Hold(0, 0b00000011);
  flat.Hold(1, 0b10000001);
  EXPECT_EQ(flat.state.classes().of(0), flat.state.classes().of(1));
  World boards(Boards(2));
  boards.Hold(0, 0b00000011);
  boards.Hold(1, 0b10000001);
  EXPECT_NE(boards.state.classes().of(0), boards.state.classes().of(1));
}

TEST(Devices, AShareGoesWhereTheLeastIsLeft) {
  World world(EightWay(1));
  world.trial.Assign({.holding = {.node = 0, .devices = 0b00100, .milli = 300}});
  world.trial.Assign({.holding = {.node = 0, .devices = 0b01000, .milli = 600}});
  EXPECT_EQ(world.Choose(Share(300)).devices, 0b01000u);
  EXPECT_EQ(world.Choose(Share(500)).devices, 0b00100u);
}

}  // namespace
}  // namespace scheduler
