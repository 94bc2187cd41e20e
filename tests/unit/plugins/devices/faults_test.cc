// What becomes of devices while a gateway runs: what is a fault, what is a loss, and what is neither.
#include "plugins/devices/faults.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

#include "plugins/devices/nvml.h"
#include "tests/support/temp_dir.h"

namespace plugins::devices {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;

class DeviceFaults : public testing::Test {
 protected:
  DeviceFaults() { setenv("FAKE_NVML_FAULTS", path_.c_str(), 1); }
  ~DeviceFaults() override { unsetenv("FAKE_NVML_FAULTS"); }
  void Write(std::string_view faults) const { std::ofstream(path_) << faults; }
  static std::vector<Probe> Probes() {
    return {{"nvml", [] { return ProbeNvml(TIDEGATE_FAKE_NVML); }}};
  }
  static std::vector<Device> Known() { return ProbeNvml(TIDEGATE_FAKE_NVML).devices; }

  tests::TempDir folder_;
  const std::string path_ = folder_ / "faults";
};

TEST_F(DeviceFaults, MemoryThatWaitsForAResetOrCannotBeRepairedIsTold) {
  Write("remap-failed 0\nremap-pending 1\npages 2\n");
  const std::vector<Device> devices = Known();
  ASSERT_EQ(devices.size(), 4u);
  EXPECT_EQ(devices[0].trouble, "rows of its memory could not be remapped: it needs service");
  EXPECT_EQ(devices[1].trouble, "rows of its memory wait to be remapped: it has to be reset");
  EXPECT_EQ(devices[2].trouble, "pages of its memory wait to be retired: it has to be reset");
  EXPECT_EQ(devices[3].trouble, "");
}

TEST_F(DeviceFaults, FollowTheReportsOfTheDriver) {
  FaultWatch watch(Known(), Probes(), TIDEGATE_FAKE_NVML);
  EXPECT_THAT(watch.FindFaults(), IsEmpty());
  Write("remap-pending 1\nlost 0\n");
  EXPECT_THAT(
      watch.FindFaults(),
      ElementsAre(Pair("GPU-0", Fault{"it is lost: its driver cannot reach it", true}),
                  Pair("GPU-1", Fault{"rows of its memory wait to be remapped: it has to be reset"})));
  Write("");
  EXPECT_THAT(watch.FindFaults(), IsEmpty()) << "it was reset";
}

TEST_F(DeviceFaults, AnXidOfTheDeviceStaysAndOneOfAProgramIsNone) {
  FaultWatch watch(Known(), Probes(), TIDEGATE_FAKE_NVML);
  Write("xid 0 31\nxid 1 48\nxid 2 79\nxid 3 13\n");
  const auto faults = watch.FindFaults();
  ASSERT_THAT(faults, ElementsAre(Pair("GPU-1", testing::_), Pair("GPU-2", testing::_)));
  EXPECT_THAT(faults.at("GPU-1").why, HasSubstr("Xid 48: an ECC error of two bits"));
  EXPECT_FALSE(faults.at("GPU-1").lost);
  EXPECT_TRUE(faults.at("GPU-2").lost) << "it has fallen off the bus";
  EXPECT_EQ(watch.FindFaults(), faults) << "until the process ends";
  EXPECT_EQ(MeaningOfXid(31), "");
}

Device Made(Vendor vendor, const std::string& uuid, const std::string& trouble = {}) {
  return {.vendor = vendor, .kind = "a", .uuid = uuid, .trouble = trouble};
}

TEST_F(DeviceFaults, OneThatIsNotListedTwiceIsLostUnlessNoneIs) {
  Found found{.devices = {Made(Vendor::kAscend, "a"), Made(Vendor::kAscend, "b"), Made(Vendor::kAmd, "c")}};
  FaultWatch watch(found.devices, {{"fake", [&found] { return found; }}}, "/no/such/library");
  EXPECT_THAT(watch.FindFaults(), IsEmpty());
  found.devices.erase(found.devices.begin());
  EXPECT_THAT(watch.FindFaults(), IsEmpty()) << "a tool may fail once";
  EXPECT_THAT(watch.FindFaults(),
              ElementsAre(Pair("a", Fault{"it is lost: its driver no longer lists it", true})));
  found.devices.clear();
  watch.FindFaults();
  const auto none = watch.FindFaults();
  EXPECT_EQ(none.size(), 3u);
  for (const auto& [uuid, fault] : none) EXPECT_FALSE(fault.lost) << uuid << ": it may be the tool";
  found.devices = {Made(Vendor::kAscend, "a"), Made(Vendor::kAscend, "b", "npu-smi says its health is Alarm"),
                   Made(Vendor::kAmd, "c")};
  EXPECT_THAT(watch.FindFaults(), ElementsAre(Pair("b", Fault{"npu-smi says its health is Alarm"})));
}

}  // namespace
}  // namespace plugins::devices
