// The last readings of the planner's devices: plain values.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "conf/time.h"
#include "plugins/devices/reading.h"

namespace gateway::control {

struct DeviceState {
  // Readings that are older are shown as old, and decide nothing.
  static constexpr conf::Duration kFresh = std::chrono::seconds(10);

  std::string node{};
  uint8_t device = 0;  // its place on the node
  std::string kind{};
  std::string source{};  // "nvml", "npu-smi", "rocm-smi", "exporter"
  conf::TimePoint as_of{};
  conf::Duration fresh_for = kFresh;  // longer where the device is read seldom
  plugins::devices::Reading reading{};
  // Since the start of this process.
  int64_t energy_mj = 0;
  uint64_t energy_resets = 0;    // of the energy counter
  conf::Duration energy_gaps{};  // time in which no energy could be measured

  bool fresh(conf::TimePoint now) const { return now - as_of <= fresh_for; }
};

struct TelemetryTrouble {
  std::string source{};
  std::string why{};
  friend bool operator==(const TelemetryTrouble&, const TelemetryTrouble&) = default;
};

struct TelemetryStatus {
  std::vector<DeviceState> devices{};  // by node and place
  std::vector<TelemetryTrouble> troubles{};
};

}  // namespace gateway::control
