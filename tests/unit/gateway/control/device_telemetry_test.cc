// Readings on their way to devices of the planner: of this machine, from exporters, and into budgets of power.
#include "gateway/control/devices/device_telemetry.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <mutex>
#include <thread>

#include "gateway/control/devices/node_power.h"
#include "gateway/net/clock.h"
#include "tests/support/fake_upstream.h"
#include "tests/support/loop_test.h"

namespace gateway::control {
namespace {

using plugins::devices::Reading;
using plugins::devices::Readings;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

// Two devices on one node, "local".
config::Scaling TwoDevices() {
  config::Scaling scaling;
  plugins::devices::MachineCluster machine;
  machine.cluster.fabric = scheduler::FlatFabric();
  machine.cluster.kinds.emplace_back().name = "h100";
  scheduler::NodeType& type = machine.cluster.types.emplace_back();
  type.name = "local";
  type.devices = 2;
  type.cpu_milli = 64'000;
  type.memory_mib = 1 << 20;
  machine.cluster.nodes.emplace_back().name = "local";
  machine.nodes.push_back({.name = "local", .devices = {{.uuid = "GPU-a"}, {.uuid = "GPU-b"}}});
  scaling.nodes = machine.cluster;
  scaling.probed = machine;
  return scaling;
}

// A tool whose readings the test sets.
class Tool {
 public:
  plugins::devices::Reader Reader() {
    return {"fake", plugins::devices::Vendor::kNvidia, std::chrono::milliseconds(1), [this] {
              const std::lock_guard lock(mutex_);
              ++reads_;
              return readings_;
            }};
  }
  void Set(Readings readings) {
    const std::lock_guard lock(mutex_);
    readings_ = std::move(readings);
    reads_ = 0;
  }
  // Those that were set were read.
  void Wait(int reads = 2) {
    while (true) {
      std::this_thread::yield();
      const std::lock_guard lock(mutex_);
      if (reads_ >= reads) return;
    }
  }

 private:
  std::mutex mutex_;
  Readings readings_;
  int reads_ = 0;
};

struct DeviceTelemetryTest : testing::Test {
  explicit DeviceTelemetryTest(config::Scaling of = TwoDevices())
      : scaling(std::move(of)), planning(scaling, net::Now()) {
    context.now = [this] { return net::Now() + later; };
    context.planning = &planning;
    context.wake = [] {};
  }
  void Make(config::Scaling of) {
    telemetry = std::make_unique<DeviceTelemetry>(
        loop, context, of,
        [this](std::span<const DrawnEnergy> of_devices) {
          drawn.insert(drawn.end(), of_devices.begin(), of_devices.end());
        },
        std::vector{tool.Reader()});
  }
  // The next half second.
  void Tick() {
    later += std::chrono::seconds(1);
    telemetry->Tick();
  }

  tests::TestLoop loop{[](const std::exception_ptr&) { ADD_FAILURE() << "a task threw"; }};
  config::Scaling scaling;
  Planning planning;
  Context context;
  conf::Duration later{};
  Tool tool;
  std::vector<DrawnEnergy> drawn;
  std::unique_ptr<DeviceTelemetry> telemetry;
};

TEST_F(DeviceTelemetryTest, ReadingsBelongToTheDevicesOfTheirUuid) {
  tool.Set(
      {.devices = {{.key = "GPU-b", .watts = 300, .energy_mj = 1000}, {.key = "GPU-other", .watts = 5}}});
  Make(scaling);
  tool.Wait();
  Tick();
  ASSERT_NE(telemetry->status(), nullptr);
  ASSERT_THAT(telemetry->status()->devices, SizeIs(1));
  const DeviceState& state = telemetry->status()->devices[0];
  EXPECT_EQ(state.node, "local");
  EXPECT_EQ(state.device, 1);
  EXPECT_EQ(state.kind, "h100");
  EXPECT_EQ(state.source, "fake");
  EXPECT_TRUE(state.fresh(net::Now()));
  EXPECT_FALSE(state.fresh(net::Now() + std::chrono::minutes(1))) << "old figures say nothing of now";
  EXPECT_THAT(drawn, IsEmpty());
  tool.Set({.devices = {{.key = "GPU-b", .watts = 300, .energy_mj = 1250}}});
  tool.Wait();
  Tick();
  ASSERT_THAT(drawn, SizeIs(1));
  EXPECT_EQ(drawn[0].device, 1);
  EXPECT_EQ(drawn[0].mj, 250);
  telemetry->Close();
}

TEST_F(DeviceTelemetryTest, ADeviceThatItsToolNoLongerListsIsLostAndAToolWithoutDevicesIsATrouble) {
  tool.Set({.devices = {{.key = "GPU-a"}, {.key = "GPU-b"}}});
  Make(scaling);
  tool.Wait();
  Tick();
  EXPECT_THAT(telemetry->faults(), IsEmpty());
  tool.Set({.devices = {{.key = "GPU-a"}}});
  for (int i = 0; i < plugins::devices::Condition::kLostAfter; ++i) {
    tool.Set({.devices = {{.key = "GPU-a"}}});
    tool.Wait();
    Tick();
  }
  ASSERT_THAT(telemetry->faults(), SizeIs(1));
  EXPECT_EQ(telemetry->faults()[0].device, 1);
  EXPECT_TRUE(telemetry->faults()[0].lost);
  tool.Set({.problems = {"the driver does not answer"}});
  tool.Wait();
  Tick();
  ASSERT_THAT(telemetry->status()->troubles, SizeIs(1));
  EXPECT_EQ(telemetry->status()->troubles[0].source, "fake");
  EXPECT_THAT(telemetry->faults(), SizeIs(1)) << "no device more is lost by that";
  telemetry->Close();
}

TEST_F(DeviceTelemetryTest, AnExportersReadingsAreMatchedByHostAndNumber) {
  const std::string text =
      "DCGM_FI_DEV_POWER_USAGE{gpu=\"1\",UUID=\"GPU-x\",Hostname=\"local.example.org\"} 420\n"
      "DCGM_FI_DEV_POWER_USAGE{gpu=\"0\",UUID=\"GPU-y\",Hostname=\"elsewhere\"} 99\n";
  const auto answer = [](std::string_view status, std::string_view body) {
    return fmt::format("HTTP/1.1 {}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{}", status,
                       body.size(), body);
  };
  tests::FakeUpstream exporter(answer("200 OK", text));
  config::Scaling of = TwoDevices();
  of.probed.reset();
  of.device_metrics.emplace_back().url = fmt::format("http://127.0.0.1:{}/metrics", exporter.port());
  Make(of);
  telemetry->Tick();
  loop.Drain();
  Tick();
  ASSERT_NE(telemetry->status(), nullptr);
  ASSERT_THAT(telemetry->status()->devices, SizeIs(1));
  EXPECT_EQ(telemetry->status()->devices[0].device, 1);
  EXPECT_EQ(telemetry->status()->devices[0].source, "exporter");
  EXPECT_DOUBLE_EQ(telemetry->status()->devices[0].reading.watts.value(), 420);
  EXPECT_THAT(telemetry->status()->troubles, IsEmpty());
  exporter.Say(answer("500 Oh", ""));
  later += std::chrono::minutes(1);
  telemetry->Tick();
  loop.Drain();
  Tick();
  ASSERT_THAT(telemetry->status()->troubles, SizeIs(1));
  EXPECT_THAT(telemetry->status()->troubles[0].why, HasSubstr("it answers 500"));
  EXPECT_THAT(telemetry->status()->devices, SizeIs(1)) << "what it told before stays, with its time";
  telemetry->Close();
}

scheduler::Job AJob(const std::string& id, uint16_t devices) {
  scheduler::Job job;
  job.id = id;
  job.queue = "default";
  job.submitted = net::Now();
  job.roles = {{.name = "worker", .ask = {.devices = {{.kinds = {"h100"}, .count = devices}}}}};
  return job;
}

TEST(NodePower, WhatIsMeasuredAndLearnedCountsAgainstTheBudget) {
  config::Scaling scaling = TwoDevices();
  scaling.power.cluster_watts = 1000;
  EXPECT_THAT(config::ApplyPowerBudget(scaling.power, scaling.nodes), IsEmpty());
  Planning planning(scaling, net::Now());
  Context context;
  conf::TimePoint now = net::Now();
  context.now = [&] { return now; };
  context.planning = &planning;
  NodePower power(context);
  TelemetryStatus telemetry;
  const auto measure = [&](double first, double second) {
    telemetry.devices.clear();
    for (const double watts : {first, second}) {
      DeviceState& state = telemetry.devices.emplace_back();
      state.node = "local";
      state.device = static_cast<uint8_t>(telemetry.devices.size() - 1);
      state.kind = "h100";
      state.as_of = now;
      state.reading.watts = watts;
      state.reading.watts_limit = 700;
    }
    now += NodePower::kEvery;
    power.Tick(&telemetry, [] { return std::vector<HeldDevices>(); });
  };
  measure(70, 70);
  const scheduler::ClusterState& state = planning.planner().state();
  EXPECT_DOUBLE_EQ(state.kind_watts(0).busy, 700) << "the limit, until more is known";
  EXPECT_NEAR(state.power_headroom(0), 1000 - 140, 1);
  planning.Submit(AJob("a", 1), now);
  planning.Submit(AJob("b", 1), now);
  EXPECT_THAT(planning.Run(now)->actions, SizeIs(1)) << "630 W more fit once";
  measure(70, 70);
  EXPECT_NEAR(state.power_headroom(0), 1000 - 770, 1) << "what has just started counts as busy";
  EXPECT_THAT(planning.Explain("b", now), testing::Contains(HasSubstr("power")));
}

TEST(PowerBudget, AnUnknownDomainIsReported) {
  scheduler::Cluster cluster = TwoDevices().nodes;
  EXPECT_THAT(config::ApplyPowerBudget(
                  {.cluster_watts = 0, .domain_watts = {{"leaf-9", 100.0}, {"cluster", 50.0}}}, cluster),
              ElementsAre("leaf-9"));
  EXPECT_EQ(cluster.fabric.domains[0].power_budget_watts, 50);
}

TEST(EnergyTariff, HasOneValueOrOneForEachHour) {
  config::ByHour one{.values = {0.3}};
  EXPECT_EQ(one.At(*conf::ParseTime("2027-01-01T13:59:00Z")), 0.3);
  config::ByHour by_hour;
  for (int hour = 0; hour < 24; ++hour) by_hour.values.push_back(hour);
  EXPECT_EQ(by_hour.At(*conf::ParseTime("2027-01-01T13:59:00Z")), 13);
  EXPECT_EQ(config::ByHour().At(net::Now()), 0);
}

}  // namespace
}  // namespace gateway::control
