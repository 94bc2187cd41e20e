// DeviceFaults: devices that have a fault take nothing new, once that is in the ledger; what runs on one that
// is lost is started again elsewhere. What runs on one that only has a fault is left to its own probes.
//
// Owner: the ScalingLoop. Thread: the control loop's.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "gateway/control/context.h"

namespace gateway::control {

class DeviceFaults {
 public:
  // `on_lost` is told of each device that nothing can run on any more.
  DeviceFaults(const Context& context, std::function<void(const plugins::launchers::DeviceFault&)> on_lost)
      : context_(context), on_lost_(std::move(on_lost)) {}

  // Takes up what the launcher says.
  void Tick();

  const std::vector<plugins::launchers::DeviceFault>& known() const { return known_; }
  size_t under_way() const { return telling_ ? 1 : 0; }

 private:
  net::Task<void> Tell();
  net::Task<bool> Record(std::string action, plugins::launchers::DeviceFault fault, std::string why);

  const Context& context_;
  const std::function<void(const plugins::launchers::DeviceFault&)> on_lost_;
  std::vector<plugins::launchers::DeviceFault> known_;  // once they are in the ledger
  conf::TimePoint next_{};
  bool telling_ = false;
};

}  // namespace gateway::control
