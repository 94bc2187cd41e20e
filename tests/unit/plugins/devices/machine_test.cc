#include "plugins/devices/machine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "conf/document.h"
#include "plugins/devices/declared.h"

namespace plugins::devices {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

const MachineResources kNode{.name = "here", .cpu_milli = 16'000, .memory_mib = 65'536};

std::vector<DeclaredDevices> Read(std::string_view yaml, std::vector<std::string>* problems = nullptr) {
  const conf::Sources sources;
  conf::Document document(yaml, "test.yaml", sources);
  std::vector<DeclaredDevices> devices;
  conf::Read(document.root(), devices);
  for (const conf::Problem& problem : document.TakeProblems()) {
    if (problems) {
      problems->push_back(problem.message);
    } else {
      ADD_FAILURE() << problem.message;
    }
  }
  return devices;
}

TEST(DeclaredDevices, AreDevicesInTheirOrder) {
  const auto devices =
      DevicesOf(Read("[{kind: h100, count: 4, memory: 80GiB, link_domains: 2, numa: 2}, "
                     "{kind: ascend-910b, vendor: ascend, ids: [7]}, {kind: h100}]"));
  ASSERT_THAT(devices, SizeIs(6));
  EXPECT_EQ(devices[3].kind, "h100");
  EXPECT_EQ(devices[3].visible, "3");
  EXPECT_EQ(devices[3].memory_mib, 81'920);
  EXPECT_EQ(devices[3].link_domain, 1);
  EXPECT_EQ(devices[3].numa, 1);
  EXPECT_EQ(devices[4].vendor, Vendor::kAscend);
  EXPECT_EQ(devices[4].visible, "7");
  EXPECT_EQ(devices[4].link_domain, 2);
  EXPECT_EQ(devices[5].visible, "4");  // CUDA counts its own
}

TEST(DeclaredDevices, WhatCannotBeIsRefused) {
  std::vector<std::string> problems;
  Read(
      "[{kind: a, count: 3, link_domains: 2}, {kind: b, count: 2, ids: [0]}, {kind: c, numa: 2}, {count: 1}, "
      "{kind: d, count: 17}, {kind: e, vendor: intel}]",
      &problems);
  EXPECT_THAT(problems,
              ElementsAre(HasSubstr("3 devices cannot be 2 groups"), HasSubstr("1 ids for 2 devices"),
                          HasSubstr("1 devices cannot be 2 groups"), "is required", HasSubstr("16"),
                          HasSubstr("intel")));
}

TEST(MachineCluster, OfOneKindIsOneNode) {
  const MachineCluster machine =
      MakeMachineCluster(kNode, DevicesOf(Read("[{kind: h100, count: 8, memory: 80GiB, numa: 2}]")));
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
  std::vector<Device> devices = DevicesOf(Read("[{kind: t4}, {kind: h100, count: 4}]"));
  devices[2].trouble = "it is on fire";
  const MachineCluster machine = MakeMachineCluster(kNode, devices);
  EXPECT_EQ(scheduler::FirstDefect(machine.cluster), "");
  EXPECT_THAT(machine.left_out, ElementsAre("device 2 (h100): it is on fire"));
  ASSERT_THAT(machine.nodes, SizeIs(2));
  EXPECT_EQ(machine.nodes[0].name, "here-t4");
  EXPECT_EQ(machine.nodes[1].name, "here-h100");
  ASSERT_THAT(machine.nodes[1].devices, SizeIs(3));
  EXPECT_EQ(machine.nodes[1].devices[1].visible, "3");
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
  const MachineCluster machine = MakeMachineCluster(
      kNode,
      DevicesOf(Read("[{kind: t4}, {kind: ascend-910b, vendor: ascend, count: 2}, {kind: h100, count: 2}]")));
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
