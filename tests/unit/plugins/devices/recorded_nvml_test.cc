// What the NVML of a real H200 said, a sample each second, while weights were made and loaded, models slept and woke, and
// training drew all the power that it may (tests/gpu has how it was recorded): read as production reads it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "plugins/devices/condition.h"
#include "plugins/devices/energy_meter.h"
#include "plugins/devices/nvml.h"
#include "plugins/devices/nvml_readings.h"
#include "tests/support/temp_dir.h"

namespace plugins::devices {
namespace {

using testing::IsEmpty;
using testing::SizeIs;

struct Sample {
  conf::TimePoint at{};
  std::string lines{};
  std::map<std::string, std::vector<uint64_t>> numbers{};  // by word

  uint64_t Of(const std::string& word) const { return numbers.at(word).front(); }
};

std::vector<Sample> ReadRecording() {
  std::vector<Sample> samples;
  std::ifstream file(TIDEGATE_RECORDED_NVML);
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string word;
    unsigned first = 0;
    uint64_t number = 0;
    words >> word >> first;
    const bool has_number = static_cast<bool>(words >> number);
    if (word == "sample") {
      samples.push_back({.at = conf::TimePoint(std::chrono::hours(1) + std::chrono::milliseconds(number))});
      continue;
    }
    samples.back().lines += line + "\n";
    if (has_number) samples.back().numbers[word].push_back(number);
  }
  return samples;
}

class RecordedH200 : public testing::Test {
 protected:
  RecordedH200() { setenv("FAKE_NVML_FAULTS", (dir_ / "state").c_str(), 1); }
  ~RecordedH200() override { unsetenv("FAKE_NVML_FAULTS"); }

  Reading Read(const Sample& sample) {
    std::ofstream(dir_ / "state") << sample.lines;
    Readings readings = reader_.Read();
    EXPECT_THAT(readings.problems, IsEmpty());
    EXPECT_THAT(readings.devices, SizeIs(1));
    return readings.devices.empty() ? Reading() : readings.devices.front();
  }

  const tests::TempDir dir_;
  const std::vector<Sample> samples_ = ReadRecording();
  NvmlReader reader_{TIDEGATE_FAKE_NVML};
};

TEST_F(RecordedH200, IsFoundAsWhatItIs) {
  ASSERT_THAT(samples_, SizeIs(testing::Gt(100U)));
  std::ofstream(dir_ / "state") << samples_.front().lines;
  const Found found = ProbeNvml(TIDEGATE_FAKE_NVML);
  EXPECT_THAT(found.problems, IsEmpty());
  ASSERT_THAT(found.devices, SizeIs(1));
  const Device& device = found.devices.front();
  EXPECT_EQ(device.kind, "h200");
  EXPECT_EQ(device.product, "NVIDIA H200");
  EXPECT_EQ(device.memory_mib, 143'771);
  EXPECT_FALSE(device.cut);
  EXPECT_THAT(device.trouble, IsEmpty());
}

TEST_F(RecordedH200, EveryFigureIsTheDrivers) {
  size_t processes = 0;
  for (const Sample& sample : samples_) {
    const Reading reading = Read(sample);
    EXPECT_DOUBLE_EQ(reading.watts.value(), static_cast<double>(sample.Of("power")) / 1000);
    EXPECT_DOUBLE_EQ(reading.watts_limit.value(), 700);
    EXPECT_DOUBLE_EQ(reading.celsius.value(), static_cast<double>(sample.Of("temp")));
    EXPECT_DOUBLE_EQ(reading.utilization.value(), static_cast<double>(sample.Of("util")) / 100);
    EXPECT_EQ(reading.memory_used_mib, static_cast<int64_t>(sample.Of("used")));
    EXPECT_EQ(reading.clock_mhz, sample.Of("clock"));
    EXPECT_EQ(reading.memory_clock_mhz, sample.Of("memory-clock"));
    EXPECT_EQ(reading.energy_mj, sample.Of("energy"));
    EXPECT_EQ(reading.ecc_uncorrected, 0U);
    EXPECT_FALSE(reading.link_errors) << "a virtual machine with one GPU sees none of its links";
    EXPECT_EQ(reading.throttling.value().power_cap, (sample.Of("reasons") & 4U) != 0);
    EXPECT_THAT(reading.errors, IsEmpty()) << "what a driver does not support is no error";
    processes = std::max(processes, reading.processes.size());
  }
  EXPECT_EQ(processes, 3U) << "two models sleep, and training runs";
}

TEST_F(RecordedH200, EnergyIsTheCountersDifferenceAndPowerOverTimeIsNear) {
  EnergyMeter by_counter;
  EnergyMeter by_power;
  int64_t counted = 0;
  int64_t integrated = 0;
  for (const Sample& sample : samples_) {
    Reading reading = Read(sample);
    const EnergyMeter::Step step = by_counter.Add(reading, sample.at);
    EXPECT_FALSE(step.reset);
    EXPECT_EQ(step.gap, conf::Duration());
    counted += step.mj;
    reading.energy_mj.reset();
    integrated += by_power.Add(reading, sample.at).mj;
  }
  const auto drawn = static_cast<int64_t>(samples_.back().Of("energy") - samples_.front().Of("energy"));
  EXPECT_EQ(counted, drawn);
  EXPECT_NEAR(static_cast<double>(integrated), static_cast<double>(drawn), static_cast<double>(drawn) * 0.01);
}

TEST_F(RecordedH200, IsFitThroughoutThoughItsPowerCapSlowsItDown) {
  Condition condition;
  bool capped = false;
  for (const Sample& sample : samples_) {
    const Reading reading = Read(sample);
    capped = capped || reading.throttling->power_cap;
    condition.Add(reading, sample.at);
    EXPECT_FALSE(condition.fault());
  }
  EXPECT_TRUE(capped);
}

}  // namespace
}  // namespace plugins::devices
