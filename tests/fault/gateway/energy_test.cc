// What devices measure through the real gateway, by a made-up NVML: figures, energy in ledger and usage, kills, and
// devices that become unfit.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "tests/fault/gateway/scaling.h"
#include "tests/support/run_cli.h"

namespace tests {
namespace {

using gateway::ledger::Kind;
using gateway::ledger::Record;
using testing::HasSubstr;

constexpr milliseconds kPatienceOfEnergy{40'000};
constexpr double kWatts = 100;  // of each GPU, where nothing else is said

class Energy : public testing::Test {
 protected:
  Energy() {
    std::filesystem::create_symlink(TIDEGATE_FAKE_NVML, folder_ / "libnvidia-ml.so.1");
    setenv("LD_LIBRARY_PATH", folder_.path().c_str(), 1);
    setenv("FAKE_NVML_FAULTS", (folder_ / "state").c_str(), 1);
    std::ofstream(folder_ / "key") << kScalingAdminKey;
  }
  ~Energy() override {
    unsetenv("LD_LIBRARY_PATH");
    unsetenv("FAKE_NVML_FAULTS");
  }
  static ScaledModel OnOneGpu() {
    ScaledModel model;
    model.replicas = "{min: 1, max: 1}";
    model.more = "placement: {devices: [{kind: h100, count: 1}]}\n";
    return model;
  }
  void Set(const std::string& lines) const {
    std::ofstream(folder_ / "next") << lines;
    std::filesystem::rename(folder_ / "next", folder_ / "state");
  }
  static Json DeviceOf(const Scaled& scaled, const Json& replica) {
    const Json nodes = scaled.Admin("/admin/v1/nodes")["data"];
    for (const Json& node : nodes) {
      if (node["name"] == replica["node"])
        return node["each"][static_cast<size_t>(std::stoi(replica["devices"][0].get<std::string>()))];
    }
    return {};
  }
  CliResult Cli(const Scaled& scaled, std::vector<std::string> words) const {
    for (const std::string& word :
         {std::string("--gateway"), fmt::format("http://127.0.0.1:{}", scaled.gateway.admin_port()),
          std::string("--key-file"), std::string(folder_ / "key")})
      words.push_back(word);
    return RunCli(words);
  }

  const TempDir folder_;
};

int64_t EnergyIn(const GatewayProcess& gateway, const std::string& model) {
  int64_t mj = 0;
  for (const Record& record : gateway.Records()) {
    if (record.kind == Kind::kDevices && record.model == model) mj += record.energy_mj;
  }
  return mj;
}

TEST_F(Energy, IsShownRecordedPricedAndKeptThroughAKill) {
  Scaled scaled(OnOneGpu(), "cluster: probe, energy: {usd_per_kwh: 0.5, grams_co2_per_kwh: 400}");
  ASSERT_TRUE(scaled.Becomes(1, "ready", kPatienceOfEnergy)) << scaled.Replicas();
  const Json replica = scaled.Replicas()[0];
  ASSERT_TRUE(Within(kPatienceOfEnergy, [&] { return DeviceOf(scaled, replica).contains("measured"); }))
      << replica;
  const Json measured = DeviceOf(scaled, replica)["measured"];
  EXPECT_EQ(measured["power_watts"], kWatts);
  EXPECT_EQ(measured["temperature_celsius"], 40);
  EXPECT_EQ(measured["source"], "nvml");
  EXPECT_EQ(measured["old"], false);
  EXPECT_THAT(Cli(scaled, {"nodes"}).out, HasSubstr(" W "));
  const CliResult devices = Cli(scaled, {"nodes", "--devices"});
  EXPECT_THAT(devices.out, HasSubstr("100 W")) << devices.err;
  EXPECT_THAT(devices.out, HasSubstr("40 °C"));
  EXPECT_EQ(scaled.gateway.Metric(
                fmt::format("tidegate_device_power_watts{{node=\"{}\",device=\"{}\",device_kind=\"h100\"}}",
                            replica["node"].get<std::string>(), replica["devices"][0].get<std::string>())),
            kWatts);
  ASSERT_EQ(scaled.gateway.Ask(Chat({{"max_tokens", 3}})).status, 200);
  Pause(milliseconds(2000));

  scaled.gateway.Kill();
  scaled.gateway.Start();
  ASSERT_TRUE(scaled.Becomes(1, "ready", kPatienceOfEnergy)) << scaled.Replicas();
  const int64_t before = EnergyIn(scaled.gateway, "chat-small");
  Pause(milliseconds(3000));
  ASSERT_EQ(scaled.gateway.Stop(kPatienceOfEnergy), 0);

  // Every second of a held device has its hundred joules, and so have the three that nobody holds.
  const int64_t after = EnergyIn(scaled.gateway, "chat-small");
  EXPECT_GE(after - before, static_cast<int64_t>(1500 * kWatts));
  EXPECT_GE(EnergyIn(scaled.gateway, ""), static_cast<int64_t>(1500 * kWatts)) << "idle";
  int64_t device_us = 0;
  int64_t energy = 0;
  for (const Record& record : scaled.gateway.Records()) {
    if (record.kind != Kind::kDevices || record.model != "chat-small") continue;
    device_us += record.device_us;
    energy += record.energy_mj;
  }
  EXPECT_LE(static_cast<double>(energy), kWatts * static_cast<double>(device_us) * 1e-3 + 2000 * kWatts)
      << "counted twice";
  scaled.gateway.Start();
  const CliResult table = Cli(scaled, {"usage"});
  EXPECT_THAT(table.out, HasSubstr("ENERGY (kWh)")) << table.err;
  EXPECT_THAT(table.out, HasSubstr("ENERGY (USD)"));
  EXPECT_THAT(Cli(scaled, {"usage", "--by", "model", "--format", "csv"}).out,
              HasSubstr("energy_kwh,energy_usd,co2_grams\r\n"));
  EXPECT_TRUE(scaled.gateway.Verify().ok());
}

TEST_F(Energy, ADeviceWithUncorrectedErrorsGetsNoNewWorkAndAHungDriverDelaysNobody) {
  Set("");
  const Scaled scaled(OnOneGpu(), "cluster: probe");
  ASSERT_TRUE(scaled.Becomes(1, "ready", kPatienceOfEnergy)) << scaled.Replicas();
  const Json replica = scaled.Replicas()[0];
  const std::string device = replica["devices"][0].get<std::string>();
  ASSERT_TRUE(Within(kPatienceOfEnergy, [&] { return DeviceOf(scaled, replica).contains("measured"); }))
      << replica;
  Set(fmt::format("ecc {} 2\n", device));
  ASSERT_TRUE(Within(kPatienceOfEnergy, [&] { return DeviceOf(scaled, replica)["healthy"] == false; }));
  EXPECT_THAT(DeviceOf(scaled, replica)["reason"].get<std::string>(), HasSubstr("2 uncorrected ECC errors"));
  EXPECT_EQ(scaled.Names("device.quarantine"), 1);
  EXPECT_EQ(scaled.gateway.Metric("tidegate_devices_faulty"), 1);

  Set(fmt::format("hang {}\n", device));
  const auto as_of = [&] { return DeviceOf(scaled, replica)["measured"]["as_of"]; };
  Json last;
  ASSERT_TRUE(Within(kPatienceOfEnergy, [&] {
    const Json now = as_of();
    Pause(milliseconds(1500));
    last = as_of();
    return now == last;
  })) << "the reading hangs";
  EXPECT_EQ(scaled.gateway.Ask(Chat({{"max_tokens", 3}})).status, 200);
  EXPECT_EQ(as_of(), last) << "old figures keep their time";
  Set("");
  EXPECT_TRUE(Within(kPatienceOfEnergy, [&] { return as_of() != last; })) << "and go on when it answers";
}

}  // namespace
}  // namespace tests
