#include "plugins/launchers/visible_devices.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace plugins::launchers {
namespace {

using devices::Device;
using devices::LocalNode;
using devices::Vendor;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;

std::vector<LocalNode> One(std::vector<Device> devices) {
  return {{.name = "here", .devices = std::move(devices)}};
}

std::vector<Device> Machine(Vendor vendor, const std::string& kind, int count) {
  std::vector<Device> devices;
  devices.reserve(static_cast<size_t>(count));
  for (int i = 0; i < count; ++i)
    devices.push_back({.vendor = vendor, .kind = kind, .visible = std::to_string(i)});
  return devices;
}

TEST(VisibleDevices, AreNamedToTheirRuntimeAlone) {
  const DeviceGrant two{.kind = "", .devices = {5, 2}};
  EXPECT_THAT(*VisibleDevices(two, One(Machine(Vendor::kNvidia, "h100", 8))),
              ElementsAre(Pair("CUDA_VISIBLE_DEVICES", "2,5"), Pair("CUDA_DEVICE_ORDER", "PCI_BUS_ID")));
  EXPECT_THAT(*VisibleDevices(two, One(Machine(Vendor::kAscend, "ascend-910b", 8))),
              ElementsAre(Pair("CUDA_VISIBLE_DEVICES", ""), Pair("ASCEND_RT_VISIBLE_DEVICES", "2,5")));
  EXPECT_THAT(*VisibleDevices(two, One(Machine(Vendor::kAmd, "mi300x", 8))),
              ElementsAre(Pair("CUDA_VISIBLE_DEVICES", ""), Pair("HIP_VISIBLE_DEVICES", "2,5")));
}

TEST(VisibleDevices, ARunWithoutDevicesSeesNone) {
  EXPECT_THAT(*VisibleDevices({}, {}), ElementsAre(Pair("CUDA_VISIBLE_DEVICES", "")));
  std::vector<Device> mixed = Machine(Vendor::kNvidia, "h100", 1);
  mixed.push_back(Machine(Vendor::kAscend, "ascend-910b", 1)[0]);
  mixed.push_back(Machine(Vendor::kAmd, "mi300x", 1)[0]);
  EXPECT_THAT(*VisibleDevices({}, One(mixed)),
              ElementsAre(Pair("CUDA_VISIBLE_DEVICES", ""), Pair("ASCEND_RT_VISIBLE_DEVICES", "-1"),
                          Pair("HIP_VISIBLE_DEVICES", "-1")));
}

TEST(VisibleDevices, OfAMachineOfSeveralNodesAreThoseOfTheOneThatWasGiven) {
  const std::vector<LocalNode> nodes{{.name = "gpus", .devices = Machine(Vendor::kNvidia, "h100", 2)},
                                     {.name = "npus", .devices = Machine(Vendor::kAscend, "ascend-910b", 2)}};
  EXPECT_THAT(*VisibleDevices({.node = "npus", .devices = {1}}, nodes),
              ElementsAre(Pair("CUDA_VISIBLE_DEVICES", ""), Pair("ASCEND_RT_VISIBLE_DEVICES", "1")));
  const auto elsewhere = VisibleDevices({.node = "there"}, nodes);
  EXPECT_THAT(std::string(elsewhere.status().message()),
              HasSubstr("this machine (gpus, npus), and not on there"));
}

TEST(VisibleDevices, AnInstanceIsNamedByItsUuid) {
  std::vector<Device> devices = Machine(Vendor::kNvidia, "h100", 2);
  devices[1].cut = true;
  devices[1].instances = {{.profile = "1g.10gb", .start = 0, .visible = "MIG-a"},
                          {.profile = "1g.10gb", .start = 1, .visible = "MIG-b"}};
  const DeviceGrant second{.kind = "h100", .devices = {1}, .partition = "1g.10gb", .partition_start = 1};
  EXPECT_THAT(*VisibleDevices(second, One(devices)),
              ElementsAre(Pair("CUDA_VISIBLE_DEVICES", "MIG-b"), Pair("CUDA_DEVICE_ORDER", "PCI_BUS_ID")));
}

TEST(VisibleDevices, RefusesMissingDevices) {
  std::vector<Device> devices = Machine(Vendor::kNvidia, "h100", 2);
  devices[1].cut = true;
  devices[1].instances = {{.profile = "1g.10gb", .start = 2, .visible = "MIG-a"}};
  struct Case {
    DeviceGrant grant;
    std::string says;
  };
  const std::vector<Case> cases{
      {{.devices = {2}}, "there is no device 2; this machine has 2"},
      {{.kind = "a100", .devices = {0}}, "device 0 is of kind h100, not a100"},
      {{.devices = {1}}, "device 1 is cut into instances (1g.10gb at 2) and cannot be given whole"},
      {{.devices = {1}, .partition = "1g.10gb", .partition_start = 3},
       "no instance 1g.10gb at 3; it has 1g.10gb at 2"},
      {{.devices = {0}, .partition = "1g.10gb"}, "it has none"},
  };
  for (const Case& c : cases) {
    const auto refused = VisibleDevices(c.grant, One(devices));
    EXPECT_TRUE(absl::IsInvalidArgument(refused.status())) << c.says;
    EXPECT_THAT(std::string(refused.status().message()), HasSubstr(c.says));
  }
}

}  // namespace
}  // namespace plugins::launchers
