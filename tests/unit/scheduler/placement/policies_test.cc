#include "scheduler/placement/policies.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "scheduler/placement/placer.h"
#include "tests/unit/scheduler/clusters.h"

namespace scheduler {
namespace {

using namespace testing;

// One node of eight devices and 128 cores; the mix, where one is needed, asks for single devices with eight
// cores each.
struct OneNode {
  explicit OneNode(std::string_view name)
      : cluster(EightWay(1)), shapes(cluster), near(cluster.types[0]), policy(*FindPlacementPolicy(name)) {
    view = ViewOf(cluster, 0);
    view.near = &near;
    state = EmptyNode(cluster, 0);
    mix.items = {{DemandOf(ShapeOf(Devices(1))), 1}};
    mix.version = 1;
    tables = policy.prepare(cluster, mix);
  }

  const Shape& ShapeOf(const Ask& ask) { return shapes[shapes.Resolve(ask, "").front()]; }
  void Hold(uint32_t devices, uint16_t milli, int64_t cpu_milli = 0) {
    const Holding holding{.devices = devices, .milli = milli, .cpu_milli = cpu_milli};
    Take(state, holding, view);
    state.sizes |= SizeBit(holding);
  }
  double Score(const Ask& ask) { return policy.score({ShapeOf(ask), state, view, cluster, mix, tables}); }
  uint32_t DevicesFor(const Ask& ask) {
    return policy.devices({ShapeOf(ask), state, view, cluster, mix, tables}).devices;
  }

  Cluster cluster;
  ShapeTable shapes;
  DeviceTable near;
  const PlacementPolicy& policy;
  TypeView view;
  NodeState state;
  DemandMix mix;
  PolicyTables tables;
};

Ask CpuOnly(int64_t cpu_milli) {
  Ask ask;
  ask.cpu_milli = cpu_milli;
  return ask;
}

TEST(PlacementPolicies, HaveNamesOfTheirOwn) {
  std::set<std::string_view> names;
  for (const PlacementPolicy& policy : PlacementPolicies()) {
    EXPECT_TRUE(names.insert(policy.name).second) << policy.name;
    EXPECT_EQ(FindPlacementPolicy(policy.name), &policy);
  }
  EXPECT_EQ(FindPlacementPolicy("binpak"), nullptr);
}

TEST(DotProduct, IsAWholeNumberOfHundred) {
  OneNode node("dot-product");
  EXPECT_EQ(node.Score(Devices(1)), 90);  // 100 · (1 − (1 · 1/16 + 1 · 1/8) / 2), truncated
  node.Hold(0b1111, kWholeDevice, 64'000);
  EXPECT_EQ(node.Score(Devices(1)), 95);  // half of both is left
  EXPECT_EQ(node.Score(CpuOnly(0)), 100);
}

TEST(BestFit, GrowsAsLessIsLeft) {
  OneNode node("best-fit");
  EXPECT_EQ(node.Score(Devices(1)), 9);  // 100 · (1 − (15/16 + 7/8) / 2), truncated
  node.Hold(0b1111, kWholeDevice, 64'000);
  EXPECT_EQ(node.Score(Devices(1)), 59);
  EXPECT_EQ(node.Score(Devices(4)), 87);  // 32 of 128 cores stay
}

TEST(GpuPacking, TakesUsedDevicesThenUsedNodesThenFreeOnes) {
  OneNode node("gpu-packing");
  EXPECT_EQ(node.Score(Share(500)), 25);
  EXPECT_EQ(node.Score(Devices(2)), 25);
  node.Hold(0b1, 400);
  EXPECT_EQ(node.Score(Share(300)), 94);  // onto the device that has 600 left
  EXPECT_EQ(node.Score(Share(700)), 49);  // needs a free one
  EXPECT_EQ(node.Score(Devices(2)), 48);
  EXPECT_EQ(node.Score(CpuOnly(1000)), 0);
}

TEST(GpuClustering, LooksForMembersOfTheSameSize) {
  OneNode node("gpu-clustering");
  EXPECT_EQ(node.Score(Devices(1)), 25);
  node.Hold(0b1, kWholeDevice);
  EXPECT_EQ(node.Score(Devices(1)), 78);  // 75 + 25 · 1/8, truncated
  EXPECT_EQ(node.Score(Devices(2)), 3);
  node.Hold(0b10, 500);
  EXPECT_EQ(node.Score(Devices(1)), 54);  // 50 + 25 · 1.5/8
  EXPECT_EQ(node.Score(Share(200)), 54);
  EXPECT_EQ(node.Score(CpuOnly(1000)), 0);
}

TEST(Fgd, ScoresBySigmoidOfFragmentation) {
  OneNode node("fgd");
  EXPECT_EQ(node.Score(Devices(1)), 50);        // nothing becomes unusable
  EXPECT_EQ(node.Score(Share(500)), 37);        // 500 milli do: 100 / (1 + e^0.5)
  EXPECT_EQ(node.Score(CpuOnly(121'000)), 0);   // all eight, for want of eight cores
  EXPECT_EQ(node.Score(CpuOnly(120'000)), 50);  // which stay here
  node.Hold(0b100, 300);
  EXPECT_EQ(node.Score(Share(500)), 62);  // 700 unusable before, 200 after
  EXPECT_EQ(node.DevicesFor(Share(500)), 0b100u);
}

TEST(Tide, ScoresByExpectedWaste) {
  OneNode node("default");
  // A free device waits for the mix at ε = 0.01 against 1: it wastes 10/1.01 milli; a used one all it has
  // left.
  const double free = 0.01 / 1.01;
  const auto level = [](double cpu, double devices) { return 0.02 * cpu / 128 + 0.01 * devices / 8; };
  EXPECT_NEAR(node.Score(Devices(1)), free - level(120, 7), 1e-6);
  EXPECT_NEAR(node.Score(Share(500)), free - 0.5 - level(126, 7.5), 1e-6);
  // The mix wants eight cores a device: with 8 of 128 left, seven of the eight devices starve, at half
  // weight.
  EXPECT_NEAR(node.Score(CpuOnly(120'000)), -0.5 * 7 - level(8, 8), 1e-6);
  node.Hold(0b100, 300);
  EXPECT_EQ(node.DevicesFor(Share(500)), 0b100u);
  EXPECT_NEAR(node.Score(Share(500)), 0.5 - level(126, 7.2), 1e-6);
}

TEST(Tide, KeepsKindsFreeThatDemandIsTiedTo) {
  Cluster cluster = EightWay(2);
  cluster.kinds.push_back(cluster.kinds[0]);
  cluster.kinds[1].name = "a100";
  cluster.types.push_back(cluster.types[0]);
  cluster.types[1].name = "other";
  cluster.types[1].kind = 1;
  cluster.nodes[1].type = 1;
  ClusterState state(cluster);
  ShapeTable shapes(cluster);
  Placer placer(state, shapes, *FindPlacementPolicy("default"));
  Ask tied = Devices(1);
  tied.devices[0].kinds = {"h100"};
  const Shape any = shapes[shapes.Resolve(Devices(1), "").front()];
  const Shape only = shapes[shapes.Resolve(tied, "").front()];
  placer.SetMix({.items = {{any, 0.5}, {only, 0.5}}, .version = 1});
  Rng rng(1);
  for (int i = 0; i < 8; ++i) {
    EXPECT_EQ(placer.Choose(shapes.Resolve(Devices(1), ""), {}, rng)->node, 1u) << i;
  }
}

TEST(FixedOrder, SendsTiesToTheSameNodeUntilItIsExcluded) {
  const Cluster cluster = EightWay(16);
  ClusterState state(cluster);
  ShapeTable shapes(cluster);
  Placer placer(state, shapes, *FindPlacementPolicy("gpu-packing"));
  Rng rng(1);
  const std::vector<ShapeId> ask = shapes.Resolve(CpuOnly(1000), "");
  std::set<NodeId> firsts;
  for (uint64_t order = 0; order < 8; ++order) {
    placer.SetTieOrder(order);
    const NodeId first = placer.Choose(ask, {}, rng)->node;
    EXPECT_EQ(placer.Choose(ask, {}, rng)->node, first);
    firsts.insert(first);
    NodeSet without(16);
    without.Add(first);
    EXPECT_NE(placer.Choose(ask, {.except = &without}, rng)->node, first);
  }
  EXPECT_GT(firsts.size(), 3u);
}

TEST(Sizes, TellNodesApartOnlyWhereAskedFor) {
  const Cluster cluster = EightWay(2);
  for (const bool apart : {false, true}) {
    ClusterState state(cluster, apart);
    Trial trial(state);
    trial.Assign({.job = 1, .holding = {.node = 0, .devices = 0b11, .milli = kWholeDevice}});
    trial.Assign({.job = 1, .holding = {.node = 1, .devices = 0b01, .milli = kWholeDevice}});
    const MemberId second =
        trial.Assign({.job = 2, .holding = {.node = 1, .devices = 0b10, .milli = kWholeDevice}});
    EXPECT_EQ(state.classes().of(0) != state.classes().of(1), apart);
    EXPECT_EQ(state.node(1).sizes, apart ? 0b010u : 0u);
    trial.Assign({.job = 3, .holding = {.node = 1, .devices = 0b100, .milli = 500}});
    trial.Evict(second);
    EXPECT_EQ(state.node(1).sizes, apart ? 0b011u : 0u);
    EXPECT_EQ(state.Check(), "");
  }
}

}  // namespace
}  // namespace scheduler
