#include "gateway/control/devices/node_power.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

namespace gateway::control {
namespace {

using DeviceAt = std::pair<std::string_view, uint8_t>;

std::map<DeviceAt, conf::TimePoint> StartsOf(std::span<const HeldDevices> held) {
  std::map<DeviceAt, conf::TimePoint> starts;
  for (const HeldDevices& holding : held) {
    for (const HeldPlace& place : holding.places) {
      conf::TimePoint& since = starts[{place.node, place.device}];
      since = std::max(since, holding.since);  // the latest of those that share it
    }
  }
  return starts;
}

}  // namespace

void NodePower::Learn(const TelemetryStatus& telemetry, std::span<const HeldDevices> held,
                      conf::TimePoint now) {
  const std::map<DeviceAt, conf::TimePoint> starts = StartsOf(held);
  const scheduler::Cluster& cluster = context_.cluster();
  for (const DeviceState& device : telemetry.devices) {
    const auto kind = std::ranges::find(cluster.kinds, device.kind, &scheduler::DeviceKind::name);
    if (!device.fresh(now) || !device.reading.watts || kind == cluster.kinds.end()) continue;
    const auto start = starts.find({device.node, device.device});
    if (start != starts.end() && now - start->second < kSettles) {
      // Neither busy nor idle: only its limit is learned.
      learned_.Add(static_cast<scheduler::KindId>(kind - cluster.kinds.begin()), true, 0,
                   device.reading.watts_limit, 0);
      continue;
    }
    learned_.Add(static_cast<scheduler::KindId>(kind - cluster.kinds.begin()), start != starts.end(),
                 *device.reading.watts, device.reading.watts_limit, conf::ToSeconds(kEvery));
  }
}

void NodePower::Tick(const TelemetryStatus* telemetry,
                     const std::function<std::vector<HeldDevices>()>& find_held) {
  const conf::TimePoint now = context_.now();
  if (now < next_ || telemetry == nullptr) return;
  next_ = now + kEvery;
  scheduler::Planner& planner = context_.planning->planner();
  if (!planner.state().has_power_budgets()) return;
  const std::vector<HeldDevices> held = find_held();
  Learn(*telemetry, held, now);
  const scheduler::Cluster& cluster = context_.cluster();
  for (scheduler::KindId kind = 0; kind < cluster.kinds.size(); ++kind) {
    const std::optional<scheduler::KindWatts> watts = learned_.Of(kind, cluster.kinds[kind]);
    if (!watts) continue;
    const scheduler::KindWatts before = planner.state().kind_watts(kind);
    const double change = std::abs(watts->busy - before.busy) + std::abs(watts->idle - before.idle);
    if (change <= kLeastChange * before.busy) continue;
    planner.UpdateKindWatts(kind, *watts);
    context_.planning->Changed();
    told_.clear();
  }
  std::map<DeviceAt, const DeviceState*> measured;
  for (const DeviceState& device : telemetry->devices) {
    if (device.fresh(now) && device.reading.watts) measured[{device.node, device.device}] = &device;
  }
  const std::map<DeviceAt, conf::TimePoint> starts = StartsOf(held);
  for (scheduler::NodeId id = 0; id < cluster.nodes.size(); ++id) {
    const std::string& name = cluster.nodes[id].name;
    const scheduler::NodeType& type = cluster.type_of(id);
    if (type.devices == 0) continue;
    uint32_t held_here = 0;
    for (const scheduler::MemberId member : planner.state().on(id))
      held_here |= planner.state().member(member).holding.devices;
    const scheduler::KindWatts of_kind = planner.state().kind_watts(type.kind);
    double watts = type.idle_watts;
    bool any = false;
    for (uint8_t device = 0; device < type.devices; ++device) {
      const bool is_held = (held_here >> device & 1) != 0;
      const auto reading = measured.find({name, device});
      const auto start = starts.find({name, device});
      const bool settled = start != starts.end() && now - start->second >= kSettles;
      any |= reading != measured.end();
      if (reading == measured.end()) {
        watts += is_held ? of_kind.busy : of_kind.idle;
      } else if (is_held && !settled) {
        watts += std::max(*reading->second->reading.watts, of_kind.busy);
      } else {
        watts += *reading->second->reading.watts;
      }
    }
    const auto told = told_.find(name);
    if (!any) {
      if (told == told_.end()) continue;
      told_.erase(told);  // as modelled again
    } else {
      if (told != told_.end() && std::abs(watts - told->second) <= kLeastChange * told->second) continue;
      told_[name] = watts;
    }
    planner.UpdateDrawn(id, watts);
    context_.planning->Changed();
  }
}

}  // namespace gateway::control
