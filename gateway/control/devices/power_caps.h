// PowerCaps: lowers the power limits of devices of this machine that only work of the priority batch holds, while a
// power budget is short (scheduler/power_caps.h decides). It restores the usual limits when the budget has room again,
// when other work or no work holds the device, when the gateway stops, and when the gateway starts after a kill.
// Therefore the usual limits are in a file before the first one is lowered.
//
// Only devices that NVML measures here and that the gateway has probed. Drivers are called on other threads.
//
// Owner: the ScalingLoop. Thread: the control loop's.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "gateway/config/device_power.h"
#include "gateway/control/devices/device_state.h"
#include "gateway/control/workloads/context.h"
#include "plugins/devices/power_limit.h"

namespace gateway::control {

// A power limit that was lowered.
struct PowerCapStatus {
  std::string node;
  uint8_t device = 0;
  double watts = 0;
  double usual_watts = 0;
};

class PowerCaps {
 public:
  static constexpr conf::Duration kEvery = std::chrono::seconds(5);

  struct Environment {
    // Runs a function on another thread.
    std::function<net::Task<absl::Status>(std::function<absl::Status()>)> off_loop;
    std::string file;  // for the usual limits of capped devices; empty: nothing is capped
    std::function<absl::StatusOr<plugins::devices::PowerLimit>(const std::string& uuid)> read =
        [](const std::string& uuid) { return plugins::devices::ReadPowerLimit(uuid); };
    std::function<absl::Status(const std::string& uuid, double watts)> set =
        [](const std::string& uuid, double watts) { return plugins::devices::SetPowerLimit(uuid, watts); };
  };

  PowerCaps(const Context& context, std::optional<config::CapLowBands> rule, Environment env)
      : context_(context), rule_(rule), env_(std::move(env)) {}

  // `telemetry` may be null.
  void Tick(const TelemetryStatus* telemetry);
  // Gives all devices their usual limits. No Tick() after it.
  net::Task<void> Restore();

  std::vector<PowerCapStatus> Rows() const;
  const std::string& trouble() const { return trouble_; }
  size_t under_way() const { return busy_ ? 1 : 0; }

 private:
  struct Capped {
    std::string node;
    uint8_t device = 0;
    double usual = 0;
    double watts = 0;
  };
  struct Change {
    std::string uuid;
    std::string node;
    uint8_t device = 0;
    plugins::devices::PowerLimit limit{};
    std::optional<double> cap{};  // absent: its usual limit
  };

  std::vector<Change> Decide(const TelemetryStatus& telemetry);
  net::Task<void> Learn(std::vector<std::string> uuids);
  net::Task<void> Apply(std::vector<Change> changes);
  net::Task<void> RestoreEarlier();
  net::Task<bool> Set(Change change);
  net::Task<absl::Status> Keep();
  net::Task<void> Record(Change change);
  void Fail(const absl::Status& why);

  const Context& context_;
  const std::optional<config::CapLowBands> rule_;
  const Environment env_;
  std::map<std::string, plugins::devices::PowerLimit> limits_;  // usual ones, by UUID
  std::map<std::string, Capped> capped_;                        // by UUID
  std::string trouble_;
  conf::TimePoint next_{};
  bool restored_ = false;  // the limits that an earlier process had lowered
  bool busy_ = false;
  bool closing_ = false;
};

}  // namespace gateway::control
