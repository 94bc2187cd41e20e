#include "plugins/devices/machine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace plugins::devices {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

const MachineResources kNode{.name = "here", .cpu_milli = 16'000, .memory_mib = 65'536};

// So many of a kind, of 80 GiB each, over two NUMA nodes.
std::vector<Device> Devices(Vendor vendor, const std::string& kind, uint8_t count) {
  std::vector<Device> devices;
  for (uint8_t i = 0; i < count; ++i) {
    devices.push_back({.vendor = vendor,
                       .kind = kind,
                       .memory_mib = 81'920,
                       .visible = std::to_string(i),
                       .numa = static_cast<uint8_t>(2 * i / count)});
  }
  return devices;
}

std::vector<Device> operator+(std::vector<Device> devices, const std::vector<Device>& more) {
  devices.insert(devices.end(), more.begin(), more.end());
  return devices;
}

TEST(MachineCluster, OfOneKindIsOneNode) {
  const MachineCluster machine = MakeMachineCluster(kNode, Devices(Vendor::kNvidia, "h100", 8));
  EXPECT_EQ(scheduler::FirstDefect(machine.cluster), "");
  EXPECT_THAT(machine.left_out, IsEmpty());
  ASSERT_THAT(machine.nodes, SizeIs(1));
  EXPECT_THAT(machine.nodes[0].devices, SizeIs(8));
  EXPECT_EQ(machine.nodes[0].name, "here");
  ASSERT_THAT(machine.cluster.nodes, SizeIs(1));
  EXPECT_EQ(machine.cluster.nodes[0].name, "here");
  const scheduler::NodeType& type = machine.cluster.type_of(0);
  EXPECT_EQ(type.devices, 8);
  EXPECT_EQ(type.cpu_milli, 16'000);
  EXPECT_EQ(type.memory_mib, 65'536);
  EXPECT_THAT(type.numa, ElementsAre(0, 0, 0, 0, 1, 1, 1, 1));
  EXPECT_EQ(machine.cluster.kinds[type.kind].name, "h100");
  EXPECT_EQ(machine.cluster.kinds[type.kind].memory_mib, 81'920);
}

TEST(MachineCluster, WithoutDevicesIsANodeAllTheSame) {
  const MachineCluster machine = MakeMachineCluster(kNode, {});
  EXPECT_EQ(scheduler::FirstDefect(machine.cluster), "");
  EXPECT_EQ(machine.cluster.type_of(0).devices, 0);
  EXPECT_EQ(machine.cluster.type_of(0).cpu_milli, 16'000);
  EXPECT_EQ(machine.nodes[0].name, "here");
}

TEST(MachineCluster, OfSeveralKindsIsAsManyNodes) {
  std::vector<Device> devices = Devices(Vendor::kNvidia, "t4", 1) + Devices(Vendor::kNvidia, "h100", 4);
  devices[2].trouble = "it is on fire";
  const MachineCluster machine = MakeMachineCluster(kNode, devices);
  EXPECT_EQ(scheduler::FirstDefect(machine.cluster), "");
  EXPECT_THAT(machine.left_out, ElementsAre("device 1 (h100): it is on fire"));
  ASSERT_THAT(machine.nodes, SizeIs(2));
  EXPECT_EQ(machine.nodes[0].name, "here-t4");
  EXPECT_EQ(machine.nodes[1].name, "here-h100");
  ASSERT_THAT(machine.nodes[1].devices, SizeIs(3));
  EXPECT_EQ(machine.nodes[1].devices[1].visible, "2");
  EXPECT_EQ(machine.cluster.type_of(0).cpu_milli, 4'000);
  EXPECT_EQ(machine.cluster.type_of(1).cpu_milli, 12'000);
  EXPECT_EQ(machine.cluster.kinds[machine.cluster.type_of(1).kind].name, "h100");
}

TEST(MachineCluster, InstancesStandWhereTheyWereMade) {
  const std::vector<Instance> cut{{.profile = "1g.10gb", .start = 0},
                                  {.profile = "1g.10gb", .start = 1},
                                  {.profile = "3g.40gb", .start = 4}};
  const Device whole{.kind = "h100", .memory_mib = 81'559};
  Device parts = whole;
  parts.cut = true;
  parts.instances = cut;
  const MachineCluster machine = MakeMachineCluster(kNode, {whole, parts, parts});
  EXPECT_EQ(scheduler::FirstDefect(machine.cluster), "");
  EXPECT_THAT(machine.left_out, IsEmpty());
  ASSERT_THAT(machine.nodes, SizeIs(2));
  EXPECT_EQ(machine.nodes[0].name, "here-h100");
  EXPECT_EQ(machine.nodes[1].name, "here-h100-cut");
  ASSERT_THAT(machine.cluster.layouts, SizeIs(1));
  const scheduler::PartitionLayout& layout = machine.cluster.layouts[0];
  EXPECT_EQ(machine.cluster.kinds[0].layout, scheduler::kNone);
  EXPECT_EQ(machine.cluster.kinds[1].name, "h100-cut");
  EXPECT_EQ(machine.nodes[1].devices[0].kind, "h100-cut");
  EXPECT_EQ(machine.cluster.kinds[1].layout, 0u);
  ASSERT_THAT(layout.profiles, SizeIs(2));
  EXPECT_THAT(layout.profiles[0].starts, ElementsAre(0, 1));
  EXPECT_EQ(layout.profiles[1].name, "3g.40gb");
  EXPECT_THAT(layout.profiles[1].starts, ElementsAre(4));
}

TEST(LocalNodes, OfAClusterAreNumberedByTheirRuntimes) {
  const MachineCluster machine = MakeMachineCluster(kNode, Devices(Vendor::kNvidia, "t4", 1) +
                                                               Devices(Vendor::kAscend, "ascend-910b", 2) +
                                                               Devices(Vendor::kNvidia, "h100", 2));
  const std::vector<LocalNode> nodes = LocalNodesOf(machine.cluster);
  ASSERT_THAT(nodes, SizeIs(3));
  EXPECT_EQ(nodes[1].name, "here-ascend-910b");
  EXPECT_EQ(nodes[1].devices[1].vendor, Vendor::kAscend);
  EXPECT_EQ(nodes[1].devices[1].visible, "1");
  EXPECT_EQ(nodes[2].devices[1].visible, "2");
  EXPECT_EQ(VendorOf("mi300x"), Vendor::kAmd);
  EXPECT_EQ(VendorOf("mine"), Vendor::kNvidia);
}

TEST(MachineCluster, ThisMachineHasANameAndProcessors) {
  const MachineResources node = ThisMachine();
  EXPECT_NE(node.name, "");
  EXPECT_GE(node.cpu_milli, 1000);
  EXPECT_GT(node.memory_mib, 256);
}

}  // namespace
}  // namespace plugins::devices
