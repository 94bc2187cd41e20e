#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <fstream>

#include "plugins/devices/builtin.h"
#include "plugins/devices/npu_smi.h"
#include "plugins/devices/nvml.h"
#include "plugins/devices/rocm_smi.h"
#include "tests/support/loop_test.h"
#include "tests/support/temp_dir.h"

namespace plugins::devices {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

TEST(DeviceKind, IsWhatClusterFilesCallIt) {
  struct Case {
    Vendor vendor;
    std::string product;
    std::string kind;
  };
  const std::vector<Case> cases{
      {Vendor::kNvidia, "NVIDIA H100 80GB HBM3", "h100"},
      {Vendor::kNvidia, "NVIDIA A100-SXM4-80GB", "a100"},
      {Vendor::kNvidia, "NVIDIA H100 PCIe", "h100"},
      {Vendor::kNvidia, "NVIDIA H200 NVL", "h200"},
      {Vendor::kNvidia, "NVIDIA H100 80GB HBM3 MIG 1g.10gb", "h100"},
      {Vendor::kNvidia, "Tesla T4", "t4"},
      {Vendor::kNvidia, "NVIDIA L40S", "l40s"},
      {Vendor::kNvidia, "NVIDIA GeForce RTX 4090", "rtx-4090"},
      {Vendor::kNvidia, "NVIDIA RTX 6000 Ada Generation", "rtx-6000-ada"},
      {Vendor::kNvidia, "", "nvidia"},
      {Vendor::kAscend, "910B3", "ascend-910b"},
      {Vendor::kAscend, "910B4-1", "ascend-910b"},
      {Vendor::kAscend, "Ascend910", "ascend-910"},
      {Vendor::kAscend, "310P3", "ascend-310p"},
      {Vendor::kAscend, "", "ascend"},
      {Vendor::kAmd, "AMD Instinct MI300X OAM", "mi300x"},
      {Vendor::kAmd, "Arcturus GL-XL [AMD Instinct MI100]", "mi100"},
      {Vendor::kAmd, "AMD INSTINCT MI250X / MI250", "mi250x"},
  };
  for (const Case& c : cases) EXPECT_EQ(KindOf(c.vendor, c.product), c.kind) << c.product;
}

TEST(Nvml, AMachineWithoutItHasNoDevicesAndNoProblem) {
  const Found found = ProbeNvml("/no/such/libnvidia-ml.so.1");
  EXPECT_THAT(found.devices, IsEmpty());
  EXPECT_THAT(found.problems, IsEmpty());
}

TEST(Nvml, TellsGpusTheirNvlinkDomainsAndTheirInstances) {
  const Found found = ProbeNvml(TIDEGATE_FAKE_NVML);
  EXPECT_THAT(found.problems, IsEmpty());
  ASSERT_THAT(found.devices, SizeIs(4));
  for (size_t i = 0; i < 4; ++i) {
    const Device& device = found.devices[i];
    EXPECT_EQ(device.kind, "h100");
    EXPECT_EQ(device.memory_mib, 81'559);
    EXPECT_EQ(device.uuid, "GPU-" + std::to_string(i));
    EXPECT_EQ(device.visible, std::to_string(i));
    EXPECT_EQ(device.link_domain, i / 2);
    EXPECT_EQ(device.cut, i == 3);
  }
  const std::vector<Instance>& cut = found.devices[3].instances;
  ASSERT_THAT(cut, SizeIs(3));
  EXPECT_EQ(cut[0].profile, "1g.10gb");
  EXPECT_EQ(cut[0].start, 0);
  EXPECT_EQ(cut[0].visible, "MIG-3-2");
  EXPECT_EQ(cut[1].start, 1);
  EXPECT_EQ(cut[2].profile, "3g.40gb");
  EXPECT_EQ(cut[2].start, 4);
  EXPECT_EQ(cut[2].visible, "MIG-3-0");
  EXPECT_EQ(cut[2].memory_mib, 81'559 / 2);
}

TEST(Nvml, ADriverThatDoesNotAnswerIsAProblem) {
  setenv("FAKE_NVML_FAILS", "1", 1);
  const Found found = ProbeNvml(TIDEGATE_FAKE_NVML);
  unsetenv("FAKE_NVML_FAILS");
  EXPECT_THAT(found.devices, IsEmpty());
  EXPECT_THAT(found.problems, ElementsAre("the driver does not answer: Driver Not Loaded (9)"));
}

TEST(Nvml, ALibraryOfAnotherKindIsAProblem) {
  EXPECT_THAT(ProbeNvml("libc.so.6").problems, ElementsAre("libc.so.6 lacks functions of NVML"));
}

constexpr std::string_view kOldNpus = R"text(
+------------------------------------------------------------------------------------------------+
| npu-smi 23.0.rc3                 Version: 23.0.rc3                                             |
+---------------------------+---------------+----------------------------------------------------+
| NPU   Name                | Health        | Power(W)    Temp(C)           Hugepages-Usage(page)|
| Chip                      | Bus-Id        | AICore(%)   Memory-Usage(MB)  HBM-Usage(MB)        |
+===========================+===============+====================================================+
| 0     910B3               | OK            | 93.4        37                0    / 0             |
| 0                         | 0000:C1:00.0  | 0           0    / 0          3163 / 65536         |
+===========================+===============+====================================================+
| 4     910B3               | Alarm         | 91.0        36                0    / 0             |
| 0                         | 0000:C2:00.0  | 0           0    / 0          3162 / 65536         |
+===========================+===============+====================================================+
+---------------------------+---------------+----------------------------------------------------+
| NPU     Chip              | Process id    | Process name             | Process memory(MB)      |
+===========================+===============+====================================================+
| 0       0                 | 12345         | python                   | 120                     |
+===========================+===============+====================================================+
)text";

constexpr std::string_view kTwoChips = R"text(
| NPU   Name                | Health        | Power(W)    Temp(C)           Hugepages-Usage(page)|
| Chip  Phy-ID              | Bus-Id        | AICore(%)   Memory-Usage(MB)  HBM-Usage(MB)        |
+===========================+===============+====================================================+
| 0     Ascend910           | OK            | 178.5       36                0    / 0             |
| 0     0                   | 0000:9D:00.0  | 0           0    / 0          3416 / 65536         |
+------------------------------------------------------------------------------------------------+
| 0     Ascend910           | OK            | -           36                0    / 0             |
| 1     1                   | 0000:9F:00.0  | 0           0    / 0          3195 / 65536         |
| 1     310                 | OK            | 12.8        41                0    / 970           |
| 0     2                   | 0000:83:00.0  | 0           588  / 7665                            |
)text";

TEST(NpuSmi, TellsChipsByTheirPlace) {
  const Found found = ParseNpuSmi(kOldNpus);
  EXPECT_THAT(found.problems, IsEmpty());
  ASSERT_THAT(found.devices, SizeIs(2));
  EXPECT_EQ(found.devices[0].vendor, Vendor::kAscend);
  EXPECT_EQ(found.devices[0].kind, "ascend-910b");
  EXPECT_EQ(found.devices[0].memory_mib, 65'536);
  EXPECT_EQ(found.devices[0].visible, "0");
  EXPECT_EQ(found.devices[0].trouble, "");
  EXPECT_EQ(found.devices[1].visible, "1");
  EXPECT_EQ(found.devices[1].trouble, "npu-smi says its health is Alarm");
}

TEST(NpuSmi, TellsChipsByTheirPhysicalIdWhereItIsThere) {
  const Found found = ParseNpuSmi(kTwoChips);
  EXPECT_THAT(found.problems, IsEmpty());
  ASSERT_THAT(found.devices, SizeIs(3));
  EXPECT_EQ(found.devices[1].kind, "ascend-910");
  EXPECT_EQ(found.devices[1].visible, "1");
  EXPECT_EQ(found.devices[2].kind, "ascend-310");
  EXPECT_EQ(found.devices[2].visible, "2");
  EXPECT_EQ(found.devices[2].memory_mib, 7'665);
}

TEST(NpuSmi, AnythingElseIsAProblemAndNoMore) {
  for (const std::string_view text :
       {"", "dcmi module initialize failed. ret is -8005", "|", "| 0 | OK | 1 |",
        "| 0  0 | 0000:9D:00.0 | 3416 / 65536 |", "| 0 910B3 | OK | x |\n| 0 | b:1 | no memory |"}) {
    EXPECT_THAT(ParseNpuSmi(text).problems, testing::Not(IsEmpty())) << text;
  }
}

constexpr std::string_view kCards = R"text(WARNING: AMD GPU device(s) is/are in a low-power state.
{"card1": {"Unique ID": "0x9246", "VRAM Total Memory (B)": "206141652992", "VRAM Total Used Memory (B)": "1",
           "Card Series": "AMD Instinct MI300X OAM", "Card Model": "0x74a1"},
 "card10": {"Unique ID": "N/A", "VRAM Total Memory (B)": "206141652992", "Card series": "AMD Instinct MI300X OAM"},
 "card0": {"VRAM Total Memory (B)": "67108864", "Card Series": "Raphael"},
 "system": {"Driver version": "6.2"}})text";

TEST(RocmSmi, TellsCardsInTheirOrder) {
  const Found found = ParseRocmSmi(kCards);
  EXPECT_THAT(found.problems, IsEmpty());
  ASSERT_THAT(found.devices, SizeIs(2));  // and not the processor's own graphics
  EXPECT_EQ(found.devices[0].vendor, Vendor::kAmd);
  EXPECT_EQ(found.devices[0].kind, "mi300x");
  EXPECT_EQ(found.devices[0].uuid, "0x9246");
  EXPECT_EQ(found.devices[0].visible, "1");
  EXPECT_EQ(found.devices[0].memory_mib, 196'592);
  EXPECT_EQ(found.devices[1].visible, "10");
  EXPECT_EQ(found.devices[1].uuid, "");
}

TEST(RocmSmi, AnythingElseIsAProblemAndNoMore) {
  for (const std::string_view text :
       {"", "ERROR:root:Driver not initialized", "{", "[]", "{\"card0\": {\"Card Series\": 5}}",
        "{\"card0\": {\"VRAM Total Memory (B)\": \"-\"}}"}) {
    EXPECT_THAT(ParseRocmSmi(text).problems, testing::Not(IsEmpty())) << text;
  }
}

class SmiCommand : public testing::Test {
 protected:
  std::string Command(const std::string& script) {
    const std::string path = dir_ / "smi";
    std::ofstream(path) << "#!/bin/sh\n" << script << "\n";
    chmod(path.c_str(), 0755);
    return path;
  }
  tests::TempDir dir_;
};

TEST_F(SmiCommand, AMachineWithoutItHasNoDevicesAndNoProblem) {
  EXPECT_THAT(ProbeNpuSmi("/no/such/npu-smi").problems, IsEmpty());
  EXPECT_THAT(ProbeRocmSmi("/no/such/rocm-smi").problems, IsEmpty());
}

TEST_F(SmiCommand, IsRunAndRead) {
  std::ofstream(dir_ / "table") << kTwoChips;
  EXPECT_THAT(ProbeNpuSmi(Command("[ $1 = info ] && cat " + dir_ / "table")).devices, SizeIs(3));
}

TEST_F(SmiCommand, OneThatFailsOrHangsIsAProblem) {
  EXPECT_THAT(ProbeNpuSmi(Command("exit 4")).problems, ElementsAre(HasSubstr("exit code 4")));
  EXPECT_THAT(ProbeRocmSmi(Command("kill -9 $$")).problems, ElementsAre(HasSubstr("signal 9")));
  EXPECT_THAT(ProbeNpuSmi(Command("sleep 1000"), std::chrono::milliseconds(100)).problems,
              ElementsAre(HasSubstr("did not end within 100ms")));
  EXPECT_THAT(ProbeRocmSmi(Command("while :; do echo flood; done"), std::chrono::milliseconds(300)).problems,
              SizeIs(1));
}

TEST(Probes, AllAreAskedAndSayWhoseProblemItIs) {
  const Probe one{"one", [] { return Found{.devices = {Device{.kind = "h100"}}, .problems = {}}; }};
  const Probe two{"two",
                  [] { return Found{.devices = {Device{.kind = "mi300x"}}, .problems = {"half of it"}}; }};
  const Found all = ProbeDevices({one, two});
  EXPECT_THAT(all.devices, SizeIs(2));
  EXPECT_THAT(all.problems, ElementsAre("two: half of it"));
  EXPECT_THAT(BuiltinProbes(), SizeIs(3));
}

}  // namespace
}  // namespace plugins::devices
