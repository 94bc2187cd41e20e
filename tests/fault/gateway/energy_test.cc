// What devices measure through the real gateway, by a made-up NVML: figures, energy in ledger and usage, kills, and
// devices that become unfit.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "tests/fault/gateway/job_commands.h"
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

// The limits that were set for a GPU, in milliwatts, in their order.
std::vector<unsigned> LimitsOf(const TempDir& folder, unsigned gpu) {
  std::ifstream file(folder / "state.limits");
  std::vector<unsigned> limits;
  unsigned index = 0;
  unsigned milliwatts = 0;
  while (file >> index >> milliwatts) {
    if (index == gpu) limits.push_back(milliwatts);
  }
  return limits;
}

constexpr std::string_view kLowJob =
    "name: low\nwork: batch\npriority: batch\ncommand: [/bin/sleep, \"600\"]\n"
    "devices: [{kind: h100, count: 1}]\n";

ScaledModel NoReplica() {
  ScaledModel model;
  model.replicas = "{min: 0, max: 1}";
  model.more = "placement: {devices: [{kind: h100, count: 1}]}\n";
  return model;
}

TEST_F(Energy, NothingStartsThatWouldExceedABudgetByMeasuredDraw) {
  Set("power 0 500000\npower 1 500000\npower 2 500000\n");
  const Scaled scaled(NoReplica(), "cluster: probe, power: {cluster_watts: 1650}");
  const JobCommands commands(scaled.gateway);
  ASSERT_TRUE(Within(kPatienceOfEnergy, [&] {
    return scaled.gateway.Metric("tidegate_devices_capped").has_value() &&
           Cli(scaled, {"nodes", "--devices"}).out.find("500 W") != std::string::npos;
  }));
  Pause(milliseconds(6000));  // the planner is told every five seconds
  const std::string job = commands.Submit(kLowJob);
  EXPECT_TRUE(Within(kPatienceOfEnergy, [&] {
    return commands.Explain(job).find("power") != std::string::npos;
  })) << commands.Explain(job);
  EXPECT_EQ(commands.StateOf(job), "pending");
  Set("");  // each draws 100 W from now on
  EXPECT_TRUE(commands.Comes(job, "running")) << commands.Explain(job);
  EXPECT_TRUE(commands.CancelAll());
  EXPECT_TRUE(LimitsOf(folder_, 0).empty()) << "no limit is changed unless that is asked for";
}

TEST_F(Energy, LowWorkIsCappedWhileABudgetIsShortAndGetsItsUsualLimitBack) {
  Set("power 0 500000\npower 1 500000\npower 2 500000\n");
  Scaled scaled(NoReplica(),
                "on_exit: keep, cluster: probe, power: {cluster_watts: 1900, cap_low_bands: {above: 0.9}}");
  const JobCommands commands(scaled.gateway);
  const std::string job = commands.Submit(kLowJob);
  ASSERT_TRUE(commands.Comes(job, "running")) << commands.Explain(job);
  unsigned gpu = 0;
  const auto capped = [&] {
    for (gpu = 0; gpu < 3; ++gpu) {
      const std::vector<unsigned> limits = LimitsOf(folder_, gpu);
      if (!limits.empty() && limits.back() < 700'000) return true;
    }
    return false;
  };
  ASSERT_TRUE(Within(kPatienceOfEnergy, capped)) << scaled.gateway.process().Output();
  EXPECT_GE(LimitsOf(folder_, gpu).back(), 350'000u);
  for (unsigned other = 0; other < 3; ++other) {
    if (other != gpu) EXPECT_TRUE(LimitsOf(folder_, other).empty()) << "only its device";
  }
  ASSERT_TRUE(
      Within(kPatienceOfEnergy, [&] { return scaled.gateway.Metric("tidegate_devices_capped") == 1; }));
  ASSERT_TRUE(Within(kPatienceOfEnergy, [&] { return scaled.Names("device.cap") == 1; }));

  // Killed, it finds what it had lowered.
  const size_t before = LimitsOf(folder_, gpu).size();
  scaled.gateway.Kill();
  EXPECT_LT(LimitsOf(folder_, gpu).back(), 700'000u);
  scaled.gateway.Start();
  ASSERT_TRUE(Within(kPatienceOfEnergy, [&] {
    const std::vector<unsigned> limits = LimitsOf(folder_, gpu);
    return limits.size() > before && std::ranges::find(limits, 700'000u) != limits.end();
  })) << scaled.gateway.process().Output();

  ASSERT_TRUE(Within(kPatienceOfEnergy, capped)) << "it runs on, and the budget is short";
  EXPECT_TRUE(commands.CancelAll());
  ASSERT_TRUE(Within(kPatienceOfEnergy, [&] { return LimitsOf(folder_, gpu).back() == 700'000; }));
  const std::string again = commands.Submit(kLowJob);
  ASSERT_TRUE(commands.Comes(again, "running")) << commands.Explain(again);
  ASSERT_TRUE(Within(kPatienceOfEnergy, capped));
  EXPECT_TRUE(commands.CancelAll());
  scaled.KeepNothing();
  ASSERT_EQ(scaled.gateway.Stop(kPatienceOfEnergy), 0);
  EXPECT_EQ(LimitsOf(folder_, gpu).back(), 700'000u);
}

TEST_F(Energy, WhereLimitsMayNotBeSetAnOperatorIsToldWhatWouldBeRight) {
  Set("power 0 500000\npower 1 500000\npower 2 500000\nno-cap 0\nno-cap 1\nno-cap 2\n");
  Scaled scaled(NoReplica(), "cluster: probe, power: {cluster_watts: 1900, cap_low_bands: {}}");
  const JobCommands commands(scaled.gateway);
  const std::string job = commands.Submit(kLowJob);
  ASSERT_TRUE(commands.Comes(job, "running")) << commands.Explain(job);
  EXPECT_TRUE(Within(kPatienceOfEnergy, [&] {
    return scaled.gateway.AskAdmin(Get("/readyz")).body.find("run the gateway as root") != std::string::npos;
  })) << scaled.gateway.AskAdmin(Get("/readyz")).body;
  EXPECT_EQ(scaled.gateway.Metric("tidegate_devices_capped"), 0);
  EXPECT_TRUE(commands.CancelAll());
}

}  // namespace
}  // namespace tests
