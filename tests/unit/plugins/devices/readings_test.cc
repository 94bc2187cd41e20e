// What devices measure: by a made-up NVML, by npu-smi's table, by an exporter's text; and the thread that reads.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

#include "gateway/net/clock.h"
#include "plugins/devices/dcgm.h"
#include "plugins/devices/npu_smi.h"
#include "plugins/devices/nvml_readings.h"
#include "plugins/devices/rocm_readings.h"
#include "plugins/devices/sampler.h"
#include "tests/support/temp_dir.h"

namespace plugins::devices {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

class NvmlReadings : public testing::Test {
 protected:
  NvmlReadings() { setenv("FAKE_NVML_FAULTS", (dir_ / "state").c_str(), 1); }
  ~NvmlReadings() override { unsetenv("FAKE_NVML_FAULTS"); }
  void Set(const std::string& lines) const { std::ofstream(dir_ / "state") << lines; }

  const tests::TempDir dir_;
  NvmlReader reader_{TIDEGATE_FAKE_NVML};
};

TEST_F(NvmlReadings, HaveEveryFigureOfADevice) {
  Set("power 1 350500\nlimit 1 600000\ntemp 1 71\nutil 1 93\nused 1 40000\nreasons 1 100\necc 1 2\n"
      "ecc-corrected 1 9\nlink 1 4\nprocess 1 4711\nenergy 1 123456\n");
  const Readings readings = reader_.Read();
  EXPECT_THAT(readings.problems, IsEmpty());
  ASSERT_THAT(readings.devices, SizeIs(4));
  const Reading& reading = readings.devices[1];
  EXPECT_EQ(reading.key, "GPU-1");
  EXPECT_EQ(reading.index, 1U);
  EXPECT_FALSE(reading.lost);
  EXPECT_DOUBLE_EQ(reading.watts.value(), 350.5);
  EXPECT_DOUBLE_EQ(reading.watts_limit.value(), 600);
  EXPECT_DOUBLE_EQ(reading.celsius.value(), 71);
  EXPECT_DOUBLE_EQ(reading.utilization.value(), 0.93);
  EXPECT_EQ(reading.memory_used_mib, 40'000);
  EXPECT_EQ(reading.memory_total_mib, 81'559);
  EXPECT_EQ(reading.clock_mhz, 1980U);
  EXPECT_EQ(reading.memory_clock_mhz, 2619U);
  const Throttling expected{.power_cap = true, .thermal = true, .power_brake = false, .slowdown = false};
  EXPECT_EQ(reading.throttling, expected);
  EXPECT_EQ(reading.ecc_uncorrected, 2U);
  EXPECT_EQ(reading.ecc_corrected, 9U);
  EXPECT_EQ(reading.link_errors, 4U);
  EXPECT_EQ(reading.energy_mj, 123'456U);
  EXPECT_THAT(reading.processes, ElementsAre(DeviceProcess{4711, 1024}));
  EXPECT_THAT(reading.errors, IsEmpty());
}

TEST_F(NvmlReadings, AnErrorOfOneFigureDoesNotLoseTheOthers) {
  Set("error-power 0 999\nerror-temp 0 3\ntemp 0 50\nutil 0 10\n");
  const Reading reading = reader_.Read().devices.at(0);
  EXPECT_FALSE(reading.watts);
  EXPECT_FALSE(reading.celsius) << "not supported";
  EXPECT_DOUBLE_EQ(reading.utilization.value(), 0.1);
  EXPECT_THAT(reading.errors, ElementsAre(HasSubstr("power: Driver Not Loaded (999)")));
}

TEST_F(NvmlReadings, ReportALostDeviceAndContinueWithTheOthers) {
  Set("lost 2\ngone 3\n");
  const Readings readings = reader_.Read();
  ASSERT_THAT(readings.devices, SizeIs(3));
  EXPECT_TRUE(readings.devices[2].lost);
  EXPECT_TRUE(readings.devices[0].watts);
  EXPECT_THAT(readings.problems, ElementsAre(HasSubstr("GPU 3 cannot be read")));
}

TEST_F(NvmlReadings, AnOlderDriverGivesFewerFigures) {
  NvmlReader older(TIDEGATE_FAKE_NVML_OLD);
  const Reading reading = older.Read().devices.at(0);
  EXPECT_DOUBLE_EQ(reading.watts.value(), 100);
  EXPECT_EQ(reading.memory_total_mib, 81'559);
  EXPECT_FALSE(reading.energy_mj);
  EXPECT_FALSE(reading.throttling);
  EXPECT_FALSE(reading.utilization);
  EXPECT_THAT(reading.errors, IsEmpty());
}

TEST_F(NvmlReadings, AMachineWithoutTheLibraryHasNoDevicesAndNoProblem) {
  NvmlReader nvml("/no/such/library");
  EXPECT_THAT(nvml.Read().devices, IsEmpty());
  EXPECT_THAT(nvml.Read().problems, IsEmpty());
  RocmReader rocm("/no/such/library");
  EXPECT_THAT(rocm.Read().problems, IsEmpty());
  RocmReader wrong(TIDEGATE_FAKE_NVML);
  EXPECT_THAT(wrong.Read().problems, SizeIs(1)) << "it has none of ROCm SMI's functions";
}

TEST_F(NvmlReadings, ADriverThatComesLaterIsBegunThen) {
  setenv("FAKE_NVML_FAILS", "1", 1);
  EXPECT_THAT(reader_.Read().problems, ElementsAre(HasSubstr("the driver does not answer")));
  unsetenv("FAKE_NVML_FAILS");
  EXPECT_THAT(reader_.Read().devices, SizeIs(4));
}

// A call that hangs keeps its thread; what was read before stays, with its time.
TEST_F(NvmlReadings, AHungCallDelaysNobody) {
  Set("power 0 200000\n");
  const auto reader = std::make_shared<NvmlReader>(TIDEGATE_FAKE_NVML);
  auto sampler =
      std::make_unique<Sampler>("nvml", [reader] { return reader->Read(); }, std::chrono::milliseconds(1));
  while (sampler->Latest()->devices.empty()) std::this_thread::yield();
  Set("hang 0\n");
  const auto hangs = [&] {
    const auto busy = sampler->busy_since();
    return busy && gateway::net::Now() - *busy > std::chrono::milliseconds(50);
  };
  while (!hangs()) std::this_thread::yield();
  const auto old = sampler->Latest();
  EXPECT_THAT(old->devices, SizeIs(4));
  EXPECT_EQ(sampler->Latest()->at, old->at);
  sampler.reset();  // gives the thread up
  Set("");
}

TEST(RocmReadings, HaveEveryFigureOfADeviceAndItsClocksFromTheKernel) {
  const tests::TempDir sys;
  const std::filesystem::path monitor = std::filesystem::path(sys / "0000:c1:00.0") / "hwmon" / "hwmon4";
  std::filesystem::create_directories(monitor);
  std::ofstream(monitor / "freq1_input") << "2100000000\n";
  std::ofstream(monitor / "freq2_input") << "1300000000\n";
  RocmReader reader(TIDEGATE_FAKE_ROCM, sys.path());
  const Readings readings = reader.Read();
  EXPECT_THAT(readings.problems, IsEmpty());
  ASSERT_THAT(readings.devices, SizeIs(2));
  const Reading& reading = readings.devices[0];
  EXPECT_EQ(reading.key, "0x9246000000000001");
  EXPECT_DOUBLE_EQ(reading.utilization.value(), 0.87);
  EXPECT_EQ(reading.memory_used_mib, 40 * 1024);
  EXPECT_EQ(reading.memory_total_mib, 192 * 1024);
  EXPECT_DOUBLE_EQ(reading.watts.value(), 540);
  EXPECT_DOUBLE_EQ(reading.watts_limit.value(), 750);
  EXPECT_DOUBLE_EQ(reading.celsius.value(), 61.5);
  EXPECT_EQ(reading.energy_mj, 61'000U);
  EXPECT_EQ(reading.ecc_corrected, 7U);
  EXPECT_EQ(reading.ecc_uncorrected, 2U);
  EXPECT_EQ(reading.clock_mhz, 2100U);
  EXPECT_EQ(reading.memory_clock_mhz, 1300U);
  const Reading& bare = readings.devices[1];
  EXPECT_EQ(bare.key, "1");
  EXPECT_FALSE(bare.watts);
  EXPECT_FALSE(bare.clock_mhz) << "its driver has no such file";
  EXPECT_THAT(bare.errors, IsEmpty()) << "what a driver does not support is no error";
}

TEST(Sampler, ReadsAgainAndAgainAndEnds) {
  std::atomic<int> readings = 0;
  {
    const Sampler sampler(
        "test", [&] { return ++readings, Readings{.problems = {"one"}}; }, std::chrono::milliseconds(1));
    while (readings < 3) std::this_thread::yield();
    EXPECT_GT(sampler.Latest()->at, conf::TimePoint());
  }
  const int at_the_end = readings;
  EXPECT_EQ(readings, at_the_end);
}

TEST(NpuSmiReadings, HaveWhatItsTableSays) {
  const Readings readings = ParseNpuSmiReadings(
      R"text(| npu-smi 23.0.rc2                       Version: 23.0.rc2                            |
| NPU   Name                | Health        | Power(W)    Temp(C)           Hugepages-Usage(page)|
| Chip                      | Bus-Id        | AICore(%)   Memory-Usage(MB)  HBM-Usage(MB)        |
| 0     910B3               | OK            | 93.6        42                0    / 0             |
| 0                         | 0000:C1:00.0  | 87          0    / 0          3163 / 65536         |
| 4     910B3               | OK            | -           40                0    / 0             |
| 0                         | 0000:C2:00.0  | 0           0    / 0          3162 / 65536         |
| NPU     Chip              | Process id    | Process name             | Process memory(MB)      |
| 4       0                 | 4711          | python                   | 2048                    |
| No running processes found in NPU 0                                                           |)text");
  EXPECT_THAT(readings.problems, IsEmpty());
  ASSERT_THAT(readings.devices, SizeIs(2));
  EXPECT_EQ(readings.devices[0].key, "0000:C1:00.0");
  EXPECT_DOUBLE_EQ(readings.devices[0].watts.value(), 93.6);
  EXPECT_DOUBLE_EQ(readings.devices[0].celsius.value(), 42);
  EXPECT_DOUBLE_EQ(readings.devices[0].utilization.value(), 0.87);
  EXPECT_EQ(readings.devices[0].memory_used_mib, 3163);
  EXPECT_EQ(readings.devices[0].memory_total_mib, 65'536);
  EXPECT_FALSE(readings.devices[1].watts);
  EXPECT_THAT(readings.devices[1].processes, ElementsAre(DeviceProcess{4711, 2048}));
  EXPECT_THAT(ParseNpuSmiReadings("dcmi module initialize failed").problems, SizeIs(1));
}

// After the format of NVIDIA's DCGM exporter 3.
constexpr std::string_view kDcgm = R"text(# HELP DCGM_FI_DEV_SM_CLOCK SM clock frequency (in MHz).
# TYPE DCGM_FI_DEV_SM_CLOCK gauge
DCGM_FI_DEV_SM_CLOCK{gpu="0",UUID="GPU-aa",pci_bus_id="00000000:17:00.0",device="nvidia0",modelName="NVIDIA H100 80GB HBM3",Hostname="node-1",DCGM_FI_DRIVER_VERSION="535.104.05"} 1980
DCGM_FI_DEV_SM_CLOCK{gpu="1",UUID="GPU-bb",device="nvidia1",Hostname="node-1"} 345
DCGM_FI_DEV_GPU_TEMP{gpu="0",UUID="GPU-aa",device="nvidia0",Hostname="node-1"} 66
DCGM_FI_DEV_POWER_USAGE{gpu="0",UUID="GPU-aa",device="nvidia0",Hostname="node-1"} 512.25
DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION{gpu="0",UUID="GPU-aa",device="nvidia0",Hostname="node-1"} 4302981764
DCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="GPU-aa",device="nvidia0",Hostname="node-1"} 98
DCGM_FI_DEV_FB_FREE{gpu="0",UUID="GPU-aa",device="nvidia0",Hostname="node-1"} 1000
DCGM_FI_DEV_FB_USED{gpu="0",UUID="GPU-aa",device="nvidia0",Hostname="node-1"} 80000
DCGM_FI_DEV_CLOCK_THROTTLE_REASONS{gpu="0",UUID="GPU-aa",device="nvidia0",Hostname="node-1"} 136
DCGM_FI_DEV_XID_ERRORS{gpu="0",UUID="GPU-aa",device="nvidia0",Hostname="node-1",err_code="79"} 79
DCGM_FI_DEV_ECC_DBE_VOL_TOTAL{gpu="1",UUID="GPU-bb",device="nvidia1",Hostname="node-1"} 9223372036854775794
DCGM_FI_DEV_GPU_TEMP{gpu="1",UUID="GPU-bb",device="nvidia1",GPU_I_PROFILE="1g.10gb",GPU_I_ID="7",Hostname="node-1"} 40
DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL{gpu="1",UUID="GPU-bb",Hostname="node-1"} 3
node_load1 0.5
)text";

TEST(Dcgm, AnExportersTextIsReadByDevice) {
  const Readings readings = ParseDcgm(kDcgm);
  ASSERT_THAT(readings.devices, SizeIs(2));
  const Reading& first = readings.devices[0];
  EXPECT_EQ(first.key, "GPU-aa");
  EXPECT_EQ(first.host, "node-1");
  EXPECT_EQ(first.index, 0U);
  EXPECT_DOUBLE_EQ(first.watts.value(), 512.25);
  EXPECT_EQ(first.energy_mj, 4'302'981'764U);
  EXPECT_EQ(first.memory_total_mib, 81'000);
  EXPECT_DOUBLE_EQ(first.utilization.value(), 0.98);
  EXPECT_TRUE(first.throttling->power_brake && first.throttling->slowdown && !first.throttling->thermal);
  EXPECT_EQ(first.xid, 79U);
  const Reading& second = readings.devices[1];
  EXPECT_FALSE(second.ecc_uncorrected) << "a blank of DCGM's";
  EXPECT_FALSE(second.celsius) << "of an instance";
  EXPECT_EQ(second.link_errors, 3U);
  EXPECT_THAT(ParseDcgm("").devices, IsEmpty());
}

TEST(Dcgm, MoreDevicesThanThereCanBeAreLeftOut) {
  std::string text;
  for (size_t i = 0; i < kMaxExportedDevices + 5; ++i)
    text += "DCGM_FI_DEV_GPU_TEMP{gpu=\"" + std::to_string(i) + "\",Hostname=\"n\"} 40\n";
  EXPECT_THAT(ParseDcgm(text).devices, SizeIs(kMaxExportedDevices));
  EXPECT_THAT(ParseDcgm(text).problems, SizeIs(1));
}

}  // namespace
}  // namespace plugins::devices
