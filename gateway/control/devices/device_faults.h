// DeviceFaults: a device with a fault gets no new work. The launcher reports faults, and so do the device's readings.
// A fault counts once the ledger has it, with the evidence and the workloads on the device. Work on a lost device is
// started again elsewhere. Work on a device that only has a fault moves away where moves have a budget
// (scheduler/cycle/moves.h); otherwise it stays, and only its own probes can end it.
//
// Owner: the ScalingLoop. Thread: the control loop's.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "gateway/control/workloads/context.h"

namespace gateway::control {

class DeviceFaults {
 public:
  // `on_lost` is called for each device that can no longer be used.
  DeviceFaults(const Context& context, std::function<void(const plugins::launchers::DeviceFault&)> on_lost,
               std::function<std::vector<plugins::launchers::DeviceFault>()> measured,
               std::function<std::vector<std::string>(const plugins::launchers::DeviceFault&)> holders)
      : context_(context),
        on_lost_(std::move(on_lost)),
        measured_(std::move(measured)),
        holders_(std::move(holders)) {}

  // Reads the reports.
  void Tick();

  const std::vector<plugins::launchers::DeviceFault>& known() const { return known_; }
  size_t under_way() const { return recording_ ? 1 : 0; }

 private:
  std::vector<plugins::launchers::DeviceFault> Reported() const;
  net::Task<void> RecordChanges();
  net::Task<bool> Record(std::string action, plugins::launchers::DeviceFault fault, std::string why);

  const Context& context_;
  const std::function<void(const plugins::launchers::DeviceFault&)> on_lost_;
  const std::function<std::vector<plugins::launchers::DeviceFault>()> measured_;
  const std::function<std::vector<std::string>(const plugins::launchers::DeviceFault&)> holders_;
  std::vector<plugins::launchers::DeviceFault> known_;  // the faults that are in the ledger
  conf::TimePoint next_{};
  bool recording_ = false;
};

}  // namespace gateway::control
