#include "scheduler/power_caps.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "tests/unit/scheduler/clusters.h"

namespace scheduler {
namespace {

constexpr CapRule kRule{.above = 0.9, .least = 0.5};
constexpr double kUsual = 700;

// A rack of two nodes below one leaf, whose work wants what it wants and draws what its limits allow.
struct Rack {
  explicit Rack(double budget) : cluster(testing::EightWay(2, 2)) {
    for (Domain& domain : cluster.fabric.domains) {
      if (domain.parent != kNone) domain.power_budget_watts = budget;
    }
    for (NodeId node = 0; node < 2; ++node) {
      for (int d = 0; d < 8; ++d)
        devices.push_back({.node = node, .watts = 100, .usual = kUsual, .least_limit = 200});
    }
    wants.assign(devices.size(), 100);
  }
  void Step() {
    for (size_t i = 0; i < devices.size(); ++i)
      devices[i].watts = std::min(wants[i], devices[i].cap.value_or(kUsual));
    const std::vector<double> drawn(cluster.fabric.domains.size(), Drawn());
    const auto caps = DecideCaps(cluster, drawn, devices, kRule);
    for (size_t i = 0; i < devices.size(); ++i) devices[i].cap = caps[i];
  }
  double Drawn() const {
    double sum = 0;
    for (const CappedDevice& device : devices) sum += device.watts;
    return sum;
  }
  Cluster cluster;
  std::vector<CappedDevice> devices;
  std::vector<double> wants;
};

TEST(PowerCaps, LowWorkPaysForAShortBudgetAndOtherWorkDoesNot) {
  Rack rack(6'000);
  for (size_t i = 0; i < 16; ++i) {
    rack.wants[i] = 600;
    rack.devices[i].is_low = i >= 4;
  }
  for (int step = 0; step < 30; ++step) rack.Step();
  EXPECT_LE(rack.Drawn(), 6'000);
  for (size_t i = 0; i < 4; ++i) EXPECT_FALSE(rack.devices[i].cap.has_value());
  for (size_t i = 4; i < 16; ++i) {
    ASSERT_TRUE(rack.devices[i].cap.has_value());
    EXPECT_GE(*rack.devices[i].cap, 350) << "half of the usual limit is the least";
  }
  // Other work ends: the low work gets its usual limits back, and the budget is kept on the way.
  for (size_t i = 0; i < 4; ++i) rack.wants[i] = 100;
  for (size_t i = 4; i < 16; ++i) rack.wants[i] = 400;
  for (int step = 0; step < 60; ++step) {
    rack.Step();
    EXPECT_LE(rack.Drawn(), 6'000);
  }
  for (const CappedDevice& device : rack.devices) EXPECT_FALSE(device.cap.has_value());
}

TEST(PowerCaps, NoLimitIsBelowWhatTheDriverAllowsNorLoweredForNothing) {
  Rack rack(1'000);
  for (size_t i = 0; i < 16; ++i) {
    rack.wants[i] = 600;
    rack.devices[i].is_low = true;
    rack.devices[i].least_limit = 500;
  }
  rack.Step();
  for (const CappedDevice& device : rack.devices) EXPECT_EQ(device.cap, 500);
  Rack wide(100'000);
  for (CappedDevice& device : wide.devices) device.is_low = true;
  wide.Step();
  for (const CappedDevice& device : wide.devices) EXPECT_FALSE(device.cap.has_value());
}

TEST(PowerCaps, ADeviceThatOtherWorkHoldsNowHasItsUsualLimit) {
  Rack rack(1'000);
  for (size_t i = 0; i < 16; ++i) {
    rack.wants[i] = 600;
    rack.devices[i].is_low = true;
  }
  rack.Step();
  ASSERT_TRUE(rack.devices[0].cap.has_value());
  rack.devices[0].is_low = false;
  rack.Step();
  EXPECT_FALSE(rack.devices[0].cap.has_value());
  EXPECT_TRUE(rack.devices[1].cap.has_value());
}

}  // namespace
}  // namespace scheduler
