#include "gateway/config/cut_devices.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gateway::config {
namespace {

using plugins::devices::Device;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

Device DeviceOf(const std::string& kind, bool cut) {
  Device device;
  device.kind = kind;
  device.cut = cut;
  return device;
}

Scaling Probed(const std::vector<Device>& first_of_nodes) {
  Scaling scaling;
  scaling.probed.emplace();
  for (const Device& device : first_of_nodes)
    scaling.probed->nodes.push_back({.name = device.kind, .devices = {device}});
  return scaling;
}

TEST(CutDevices, ARequestWithoutAKindGetsNoPartitionedDevice) {
  const std::vector<std::string> uncut =
      UncutKinds(Probed({DeviceOf("h100", false), DeviceOf("a100", false), DeviceOf("h100-cut", true)}));
  EXPECT_THAT(uncut, ElementsAre("h100", "a100"));
  scheduler::Ask ask;
  ask.devices = {{.count = 2}, {.milli = 500}, {.profile = "1g.10gb"}, {.kinds = {"a100"}, .count = 1}};
  AskForUncut(ask, uncut);
  EXPECT_THAT(ask.devices[0].kinds, ElementsAre("h100", "a100"));
  EXPECT_THAT(ask.devices[1].kinds, ElementsAre("h100", "a100"));
  EXPECT_THAT(ask.devices[2].kinds, IsEmpty()) << "instances are of those";
  EXPECT_THAT(ask.devices[3].kinds, ElementsAre("a100"));
}

TEST(CutDevices, PartitionedDevicesAreRequestedOnlyByProfile) {
  const std::vector<std::string> uncut =
      UncutKinds(Probed({DeviceOf("h100", false), DeviceOf("h100-cut", true)}));
  EXPECT_THAT(AsksForCut({.kinds = {"h100-cut"}, .count = 1}, uncut),
              HasSubstr("ask for an instance by profile"));
  EXPECT_THAT(AsksForCut({.kinds = {"h100-cut"}, .milli = 500}, uncut), HasSubstr("h100-cut is cut"));
  EXPECT_EQ(AsksForCut({.kinds = {"h100-cut"}, .profile = "1g.10gb"}, uncut), "");
  EXPECT_EQ(AsksForCut({.kinds = {"h100"}, .count = 1}, uncut), "");
  EXPECT_EQ(AsksForCut({.count = 1}, uncut), "");
}

TEST(CutDevices, WithoutPartitionedOrProbedDevicesNothingChanges) {
  EXPECT_THAT(UncutKinds(Scaling()), IsEmpty());
  EXPECT_THAT(UncutKinds(Probed({DeviceOf("h100", false)})), IsEmpty());
  scheduler::Ask ask;
  ask.devices = {{.count = 2}};
  AskForUncut(ask, {});
  EXPECT_THAT(ask.devices[0].kinds, IsEmpty());
  EXPECT_EQ(AsksForCut({.kinds = {"h100"}, .count = 1}, {}), "");
}

TEST(CutDevices, WhereAllAreCutNoneIsGivenWhole) {
  scheduler::Ask ask;
  ask.devices = {{.count = 1}};
  AskForUncut(ask, UncutKinds(Probed({DeviceOf("h100", true)})));
  EXPECT_THAT(ask.devices[0].kinds, testing::SizeIs(1));
  EXPECT_NE(ask.devices[0].kinds[0], "h100");
}

}  // namespace
}  // namespace gateway::config
