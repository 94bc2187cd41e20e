#include "scheduler/placement/partition_choice.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "scheduler/placement/devices.h"
#include "scheduler/rng.h"
#include "scheduler/state/cluster_state.h"
#include "tests/unit/scheduler/clusters.h"

namespace scheduler {
namespace {

using namespace testing;

Cluster Cut() {
  Cluster cluster = EightWay(1);
  std::vector<PartitionProfile>& profiles = cluster.layouts[0].profiles;
  profiles.insert(profiles.begin() + 1, {"1g.20gb", 1, 2, {0, 2, 4, 6}});
  profiles.insert(profiles.end() - 1, {"4g.40gb", 4, 4, {0}});
  cluster.types[0].devices = 2;
  return cluster;
}

struct World {
  PolicyTables tables;

  World() : cluster(Cut()), state(cluster), shapes(cluster), node(state.node(0)) {}

  const Shape& ShapeOf(const std::string& profile) {
    return shapes[shapes.Resolve(Partition(profile), "").front()];
  }
  void Want(const std::string& profile, double share) { mix.items.push_back({ShapeOf(profile), share}); }
  DeviceChoice Choose(const std::string& profile) {
    return KindestPartition({ShapeOf(profile), node, state.view(0), cluster, mix, tables});
  }
  bool Take(const std::string& profile) {
    const Shape shape = ShapeOf(profile);
    if (!Fits(node, shape, state.view(0))) return false;
    Hold(profile, Choose(profile));
    return true;
  }
  void Hold(const std::string& profile, const DeviceChoice& choice) {
    scheduler::Take(node,
                    {.devices = choice.devices,
                     .profile = ProfileOn(ShapeOf(profile), state.view(0)),
                     .start = choice.start},
                    state.view(0));
  }

  Cluster cluster;
  ClusterState state;
  ShapeTable shapes;
  NodeState node;
  DemandMix mix;
};

TEST(PartitionChoice, KeepsTheMostOfAllProfilesPossible) {
  struct Case {
    const char* profile;
    uint8_t start;
  };
  for (const auto& [profile, start] : {Case{"1g.10gb", 6}, Case{"1g.20gb", 6}, Case{"2g.20gb", 4},
                                       Case{"3g.40gb", 4}, Case{"4g.40gb", 0}, Case{"7g.80gb", 0}}) {
    World world;
    EXPECT_EQ(world.Choose(profile).start, start) << profile;
  }
}

TEST(PartitionChoice, KeepsPlacesForDemandedProfiles) {
  World world;
  world.Want("3g.40gb", 0.9);
  world.Want("1g.10gb", 0.1);
  world.node.device[1].healthy = false;
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(world.Take("1g.10gb"));
  EXPECT_TRUE(world.Take("3g.40gb")) << "one half is kept for it";
}

TEST(PartitionChoice, CutsAWholeDeviceOnlyWhereNoOtherHasRoom) {
  World world;
  world.Hold("4g.40gb", {0b10, 0});
  EXPECT_EQ(world.Choose("3g.40gb").devices, 0b10u);
  EXPECT_EQ(world.Choose("1g.10gb").devices, 0b10u);
  EXPECT_EQ(world.Choose("4g.40gb").devices, 0b01u);
}

TEST(PartitionChoice, NeverTakesASharedOrBrokenDevice) {
  World world;
  Take(world.node, {.devices = 0b01, .milli = 300}, world.state.view(0));
  EXPECT_EQ(world.Choose("1g.10gb").devices, 0b10u);
}

// First fit is what is compared with: the first device, the first start.
TEST(PartitionChoice, HoldsMoreOfARandomDemandThanFirstFit) {
  const std::vector<std::string> profiles = {"1g.10gb", "1g.20gb", "2g.20gb", "3g.40gb", "4g.40gb"};
  uint32_t kind = 0;
  uint32_t first = 0;
  Rng rng(9);
  for (int round = 0; round < 500; ++round) {
    World a;
    World b;
    for (const std::string& profile : profiles) a.Want(profile, 0.2);
    for (int i = 0; i < 12; ++i) {
      const std::string& profile = profiles[rng.Uniform(profiles.size())];
      const PartitionProfile& p =
          *std::ranges::find(a.cluster.layouts[0].profiles, profile, &PartitionProfile::name);
      if (a.Take(profile)) kind += p.compute;
      for (uint32_t d = 0; d < 2; ++d) {
        const auto start = std::ranges::find_if(
            p.starts, [&](uint8_t at) { return (SlotBits(p, at) & b.node.device[d].used_slots) == 0; });
        if (start == p.starts.end()) continue;
        b.Hold(profile, {uint32_t{1} << d, *start});
        first += p.compute;
        break;
      }
    }
  }
  EXPECT_GT(kind, first * 102 / 100);
}

}  // namespace
}  // namespace scheduler
