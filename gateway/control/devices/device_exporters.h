// DeviceExporters: reads the exporters of section `scaling.device_metrics`, each at its interval.
//
// An exporter that is slow, large or gone costs nothing but its own readings: each request is bounded in time and
// bytes, and so is the number of requests at a time.
//
// Owner: the DeviceTelemetry. Thread: the control loop's.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "gateway/config/device_power.h"
#include "gateway/control/devices/device_state.h"
#include "gateway/net/abort_group.h"
#include "gateway/net/loop.h"
#include "gateway/net/tls.h"

namespace gateway::control {

class DeviceExporters {
 public:
  static constexpr size_t kMaxAnswer = size_t{8} << 20;  // bytes
  static constexpr conf::Duration kTimeout = std::chrono::seconds(5);
  static constexpr size_t kMaxAtOnce = 16;

  // `on_readings` gets the readings of an exporter, and the node that was asked; empty: the exporter serves all nodes.
  DeviceExporters(net::Loop& loop, const std::vector<config::DeviceMetrics>& configured,
                  std::function<void(const std::string& node, const config::DeviceMetrics& of,
                                     const plugins::devices::Readings& readings)>
                      on_readings);

  // Asks the exporters that are due. `nodes`: the nodes of the cluster that have devices.
  void Tick(const std::vector<std::string>& nodes, conf::TimePoint now);
  // Exporters that gave no readings the last time.
  std::vector<TelemetryTrouble> troubles() const;
  size_t under_way() const { return under_way_; }
  // Requests under way end soon.
  void Close();

 private:
  struct Asked {
    conf::TimePoint next{};
    bool under_way = false;
    std::string trouble{};
  };
  net::Task<void> Ask(const config::DeviceMetrics& of, std::string node, std::string url);

  net::Loop& loop_;
  const std::vector<config::DeviceMetrics> configured_;
  const std::function<void(const std::string&, const config::DeviceMetrics&,
                           const plugins::devices::Readings&)>
      on_readings_;
  std::map<std::string, Asked> asked_;  // by URL, of nodes that the cluster has
  net::AbortGroup fetches_;
  size_t under_way_ = 0;
  bool closed_ = false;
};

}  // namespace gateway::control
