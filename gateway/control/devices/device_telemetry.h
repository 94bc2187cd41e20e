// DeviceTelemetry: what the devices of the planner measure, once a second where they are of this machine, and as
// often as their exporters are asked where they are of others.
//
// Metering gets the energy that was drawn, and DeviceFaults the devices that are unfit for work.
// Tools are read on threads of their own, which may hang: nothing here waits for them. Readings are matched to
// devices by key or UUID, and, from exporters, by host and number.
//
// Owner: the ScalingLoop. Thread: the control loop's.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gateway/config/scaling.h"
#include "gateway/control/devices/device_exporters.h"
#include "gateway/control/devices/device_state.h"
#include "gateway/control/metering/device_meter.h"
#include "gateway/control/workloads/context.h"
#include "plugins/devices/builtin.h"
#include "plugins/devices/condition.h"
#include "plugins/devices/energy_meter.h"
#include "plugins/devices/sampler.h"
#include "plugins/launchers/launcher.h"

namespace gateway::control {

class DeviceTelemetry {
 public:
  // How long a tool may take for a reading before that is a trouble.
  static constexpr conf::Duration kHangs = std::chrono::seconds(30);

  // `on_energy` is called with what devices have drawn since the last time. `readers`: of this machine's devices.
  DeviceTelemetry(net::Loop& loop, const Context& context, const config::Scaling& scaling,
                  std::function<void(std::span<const DrawnEnergy>)> on_energy,
                  std::vector<plugins::devices::Reader> readers = plugins::devices::BuiltinReaders());

  // Takes what has come since the last tick. Cheap: it may be called ten times a second.
  void Tick();
  // Devices that should not be used, by what they measure.
  const std::vector<plugins::launchers::DeviceFault>& faults() const { return faults_; }
  // As of the last change; null: nothing is measured.
  std::shared_ptr<const TelemetryStatus> status() const { return status_; }
  size_t under_way() const { return exporters_.under_way(); }
  void Close();

 private:
  using Place = std::pair<std::string, uint8_t>;  // node, place on it
  struct Known {
    DeviceState state{};
    plugins::devices::EnergyMeter energy{};
    plugins::devices::Condition condition{};
  };
  struct Tool {
    plugins::devices::Vendor vendor = plugins::devices::Vendor::kNvidia;
    conf::Duration interval{};
    std::unique_ptr<plugins::devices::Sampler> sampler{};
    conf::TimePoint taken{};
  };

  void TakeTools(conf::TimePoint now);
  void TakeExported(const std::string& node, const config::DeviceMetrics& of,
                    const plugins::devices::Readings& readings);
  void Take(const Place& place, const std::string& kind, const std::string& source, conf::Duration fresh_for,
            const plugins::devices::Reading& reading, conf::TimePoint at);
  void Publish(conf::TimePoint now);

  const Context& context_;
  const std::function<void(std::span<const DrawnEnergy>)> on_energy_;
  // Of this machine.
  std::vector<plugins::devices::LocalNode> local_;
  std::map<std::string, std::string> local_kinds_;  // by node
  std::vector<Tool> tools_;
  std::map<Place, Known> known_;
  std::map<std::string, Place> by_key_;  // of exporters: devices that have been matched, by UUID
  std::vector<DrawnEnergy> drawn_;
  std::vector<plugins::launchers::DeviceFault> faults_;
  std::shared_ptr<const TelemetryStatus> status_;
  bool changed_ = false;
  conf::TimePoint next_{};
  DeviceExporters exporters_;
};

}  // namespace gateway::control
