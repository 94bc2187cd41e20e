#include "gateway/control/devices/device_telemetry.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>

#include "conf/shown.h"
#include "gateway/log.h"
#include "plugins/devices/faults.h"

namespace gateway::control {
namespace {

using plugins::devices::Device;
using plugins::devices::LocalNode;
using plugins::devices::Reading;
using plugins::devices::Readings;

constexpr conf::Duration kTelemetryTick = std::chrono::milliseconds(500);

// "node-7.example.org" and "node-7" are one host.
bool SameHost(std::string_view a, std::string_view b) {
  if (a == b) return true;
  const bool short_a = a.find('.') == std::string_view::npos;
  const bool short_b = b.find('.') == std::string_view::npos;
  return short_a != short_b && a.substr(0, a.find('.')) == b.substr(0, b.find('.'));
}

}  // namespace

DeviceTelemetry::DeviceTelemetry(net::Loop& loop, const Context& context, const config::Scaling& scaling,
                                 std::function<void(std::span<const DrawnEnergy>)> on_energy,
                                 std::vector<plugins::devices::Reader> readers)
    : context_(context),
      on_energy_(std::move(on_energy)),
      exporters_(loop, scaling.device_metrics,
                 [this](const std::string& node, const config::DeviceMetrics& of, const Readings& readings) {
                   TakeExported(node, of, readings);
                 }) {
  if (!scaling.probed) return;
  local_ = scaling.probed->nodes;
  for (const scheduler::Node& node : scaling.probed->cluster.nodes) {
    const scheduler::NodeType& type = scaling.probed->cluster.types[node.type];
    if (type.devices > 0) local_kinds_[node.name] = scaling.probed->cluster.kinds[type.kind].name;
  }
  for (plugins::devices::Reader& reader : readers) {
    const auto reads = [&](const Device& device) { return device.vendor == reader.vendor; };
    const bool any = std::ranges::any_of(
        local_, [&](const LocalNode& node) { return std::ranges::any_of(node.devices, reads); });
    if (!any) continue;
    tools_.push_back({.vendor = reader.vendor,
                      .interval = reader.interval,
                      .sampler = std::make_unique<plugins::devices::Sampler>(
                          reader.name, std::move(reader.read), reader.interval)});
  }
}

void DeviceTelemetry::Tick() {
  const conf::TimePoint now = context_.now();
  if (now < next_) return;
  next_ = now + kTelemetryTick;
  TakeTools(now);
  std::vector<std::string> nodes;
  for (const scheduler::Node& node : context_.cluster().nodes) {
    if (context_.cluster().types[node.type].devices > 0) nodes.push_back(node.name);
  }
  exporters_.Tick(nodes, now);
  if (!drawn_.empty()) on_energy_(std::exchange(drawn_, {}));
  Publish(now);
}

void DeviceTelemetry::TakeTools(conf::TimePoint now) {
  for (Tool& tool : tools_) {
    const std::shared_ptr<const Readings> latest = tool.sampler->Latest();
    if (latest->at <= tool.taken || latest->at > now) continue;
    tool.taken = latest->at;
    // Several devices may be parts of one: then its first place counts.
    for (const LocalNode& node : local_) {
      for (size_t place = 0; place < node.devices.size(); ++place) {
        const Device& device = node.devices[place];
        if (device.vendor != tool.vendor) continue;
        const Place at(node.name, static_cast<uint8_t>(place));
        const auto reading = std::ranges::find_if(latest->devices, [&](const Reading& one) {
          return one.key == plugins::devices::KeyOf(device) ||
                 (!device.visible.empty() && one.key == device.visible);
        });
        if (reading != latest->devices.end()) {
          Take(at, local_kinds_[node.name], tool.sampler->name(),
               std::max(DeviceState::kFresh, 3 * tool.interval), *reading, latest->at);
        } else if (!latest->devices.empty()) {
          // Where a tool reports no device at all, the tool itself may be broken.
          known_[at].condition.AddMissing(latest->at);
          changed_ = true;
        }
      }
    }
  }
}

void DeviceTelemetry::TakeExported(const std::string& node, const config::DeviceMetrics& of,
                                   const Readings& readings) {
  const scheduler::Cluster& cluster = context_.cluster();
  for (const Reading& reading : readings.devices) {
    const std::string& host = node.empty() ? reading.host : node;
    for (const scheduler::Node& of_cluster : cluster.nodes) {
      const scheduler::NodeType& type = cluster.types[of_cluster.type];
      if (type.devices == 0 || !SameHost(of_cluster.name, host)) continue;
      // A device's number is its place on the node, unless its UUID was seen at another one.
      std::optional<Place> at;
      if (reading.index && *reading.index < type.devices)
        at = Place(of_cluster.name, static_cast<uint8_t>(*reading.index));
      if (const auto seen = by_key_.find(reading.key); !reading.key.empty() && seen != by_key_.end()) {
        if (!at && seen->second.first == of_cluster.name) at = seen->second;
      }
      if (!at) break;
      if (!reading.key.empty()) by_key_[reading.key] = *at;
      Take(*at, cluster.kinds[type.kind].name, "exporter", std::max(DeviceState::kFresh, 3 * of.interval),
           reading, readings.at);
      break;
    }
  }
}

void DeviceTelemetry::Take(const Place& place, const std::string& kind, const std::string& source,
                           conf::Duration fresh_for, const Reading& reading, conf::TimePoint at) {
  Known& known = known_[place];
  if (at <= known.state.as_of) return;
  const plugins::devices::EnergyMeter::Step step = known.energy.Add(reading, at);
  known.condition.Add(reading, at);
  DeviceState& state = known.state;
  state.node = place.first;
  state.device = place.second;
  state.kind = kind;
  state.source = source;
  state.as_of = at;
  state.fresh_for = fresh_for;
  state.reading = reading;
  state.energy_mj += step.mj;
  state.energy_resets += step.reset ? 1 : 0;
  state.energy_gaps += step.gap;
  if (step.mj > 0) drawn_.push_back({place.first, place.second, kind, step.mj});
  changed_ = true;
}

void DeviceTelemetry::Publish(conf::TimePoint now) {
  std::vector<TelemetryTrouble> troubles = exporters_.troubles();
  for (const Tool& tool : tools_) {
    const std::optional<conf::TimePoint> busy = tool.sampler->busy_since();
    if (busy && now - *busy > kHangs) {
      troubles.push_back(
          {tool.sampler->name(),
           fmt::format("it has not answered for {}; what it told before is shown with its time",
                       conf::InWords(std::chrono::floor<std::chrono::seconds>(now - *busy)))});
      continue;
    }
    const std::shared_ptr<const Readings> latest = tool.sampler->Latest();
    if (!latest->problems.empty()) troubles.push_back({tool.sampler->name(), latest->problems.front()});
  }
  const bool same = status_ != nullptr && status_->troubles == troubles;
  if (!changed_ && (same || (status_ == nullptr && troubles.empty()))) return;
  for (const TelemetryTrouble& trouble : troubles) {
    if (status_ == nullptr || std::ranges::find(status_->troubles, trouble.source,
                                                &TelemetryTrouble::source) == status_->troubles.end())
      log::Warn("devices are not measured", {{"source", trouble.source}, {"why", trouble.why}});
  }
  // Devices of nodes that have left.
  std::erase_if(known_, [&](const auto& one) {
    return std::ranges::find(context_.cluster().nodes, one.first.first, &scheduler::Node::name) ==
           context_.cluster().nodes.end();
  });
  std::erase_if(by_key_, [&](const auto& one) { return !known_.contains(one.second); });
  auto next = std::make_shared<TelemetryStatus>();
  faults_.clear();
  for (const auto& [place, known] : known_) {
    if (!known.state.node.empty()) next->devices.push_back(known.state);
    if (const std::optional<plugins::devices::Fault>& fault = known.condition.fault())
      faults_.push_back({place.first, place.second, fault->why, fault->lost});
  }
  next->troubles = std::move(troubles);
  status_ = std::move(next);
  changed_ = false;
}

void DeviceTelemetry::Close() {
  exporters_.Close();
  tools_.clear();
}

}  // namespace gateway::control
