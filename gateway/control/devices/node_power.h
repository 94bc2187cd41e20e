// NodePower: reports to the planner what nodes draw now and what busy devices draw, where power is limited.
//
// A device whose holder has just started counts as busy, since it does not draw that power yet;
// so does a held one without a fresh reading. Any other device counts as measured.
//
// Owner: the ScalingLoop. Thread: the control loop's.
#pragma once

#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "gateway/control/devices/device_state.h"
#include "gateway/control/metering/device_meter.h"
#include "gateway/control/workloads/context.h"
#include "scheduler/learned_power.h"

namespace gateway::control {

class NodePower {
 public:
  static constexpr conf::Duration kEvery = std::chrono::seconds(5);
  // The draw of a holder counts once it has run for this long.
  static constexpr conf::Duration kSettles = std::chrono::minutes(3);
  // The least change of a node's draw that is reported, as a part of the last report.
  static constexpr double kLeastChange = 0.02;

  explicit NodePower(const Context& context) : context_(context) {}

  // `telemetry` may be null. `held` is called when it is needed.
  void Tick(const TelemetryStatus* telemetry, const std::function<std::vector<HeldDevices>()>& held);

 private:
  void Learn(const TelemetryStatus& telemetry, std::span<const HeldDevices> held, conf::TimePoint now);

  const Context& context_;
  scheduler::LearnedPower learned_;
  std::map<std::string, double> told_;  // by node
  conf::TimePoint next_{};
};

}  // namespace gateway::control
