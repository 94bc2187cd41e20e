// DeviceTelemetry: the readings of the planner's devices. Those of this machine are read once a second, those of other
// machines at the interval of their exporter.
//
// Metering gets the energy that was drawn; DeviceFaults gets the devices that are unfit for work.
// Each tool is read on a thread of its own, which may hang: nothing here waits for it. Readings are matched to
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
  // A tool that takes longer for a reading is reported as a trouble.
  static constexpr conf::Duration kHangs = std::chrono::seconds(30);

  // `on_energy` is called with the energy that devices have drawn since the last call. `readers`: for the devices of
  // this machine.
  DeviceTelemetry(net::Loop& loop, const Context& context, const config::Scaling& scaling,
                  std::function<void(std::span<const DrawnEnergy>)> on_energy,
                  std::vector<plugins::devices::Reader> readers = plugins::devices::BuiltinReaders());

  // Takes the readings that have come since the last tick. Cheap: it may be called ten times a second.
  void Tick();
  // Devices that should not be used, judged by their readings.
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
  // The planner's nodes on this machine.
  std::vector<plugins::devices::LocalNode> local_;
  std::map<std::string, std::string> local_kinds_;  // by node
  std::vector<Tool> tools_;
  std::map<Place, Known> known_;
  std::map<std::string, Place> by_key_;  // devices of exporters that have been matched, by UUID
  std::vector<DrawnEnergy> drawn_;
  std::vector<plugins::launchers::DeviceFault> faults_;
  std::shared_ptr<const TelemetryStatus> status_;
  bool changed_ = false;
  conf::TimePoint next_{};
  DeviceExporters exporters_;
};

}  // namespace gateway::control
