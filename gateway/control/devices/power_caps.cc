#include "gateway/control/devices/power_caps.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "conf/json_parse.h"
#include "conf/text.h"
#include "gateway/config/model_policy.h"
#include "gateway/log.h"
#include "gateway/net/files.h"
#include "scheduler/power_caps.h"

namespace gateway::control {
namespace {

using plugins::devices::PowerLimit;

constexpr conf::Duration kCapRetry = std::chrono::minutes(1);  // after a failure
constexpr size_t kMostOfCapsFile = 1 << 20;                    // of the file
constexpr double kLeastStep = 0.02;  // of the usual limit: smaller changes are left out

}  // namespace

void PowerCaps::Tick(const TelemetryStatus* telemetry) {
  const conf::TimePoint now = context_.now();
  if (busy_ || closing_ || now < next_ || env_.file.empty()) return;
  next_ = now + kEvery;
  if (!restored_) return context_.spawn(RestoreEarlier());
  if (!rule_ || telemetry == nullptr || !context_.planning->planner().state().has_power_budgets()) return;
  std::vector<std::string> unknown;
  for (const DeviceState& device : telemetry->devices) {
    if (device.source == "nvml" && device.fresh(now) && !limits_.contains(device.reading.key))
      unknown.push_back(device.reading.key);
  }
  if (!unknown.empty()) return context_.spawn(Learn(std::move(unknown)));
  std::vector<Change> changes = Decide(*telemetry);
  if (!changes.empty()) context_.spawn(Apply(std::move(changes)));
}

std::vector<PowerCaps::Change> PowerCaps::Decide(const TelemetryStatus& telemetry) {
  const conf::TimePoint now = context_.now();
  const scheduler::Planner& planner = context_.planning->planner();
  const scheduler::ClusterState& state = planner.state();
  const scheduler::Cluster& cluster = context_.cluster();
  std::vector<double> drawn;
  for (scheduler::DomainId d = 0; d < cluster.fabric.domains.size(); ++d)
    drawn.push_back(static_cast<double>(state.counters(d).milliwatts) * 1e-3);
  std::vector<Change> all;
  std::vector<scheduler::CappedDevice> devices;
  for (const DeviceState& device : telemetry.devices) {
    const auto limit = limits_.find(device.reading.key);
    const auto node = std::ranges::find(cluster.nodes, device.node, &scheduler::Node::name);
    if (limit == limits_.end() || node == cluster.nodes.end() || !device.fresh(now)) continue;
    scheduler::CappedDevice& one = devices.emplace_back();
    one.node = static_cast<scheduler::NodeId>(node - cluster.nodes.begin());
    one.watts = device.reading.watts.value_or(0);
    one.usual = limit->second.now;
    one.least_limit = limit->second.least;
    if (const auto capped = capped_.find(device.reading.key); capped != capped_.end())
      one.cap = capped->second.watts;
    bool held = false;
    bool others = false;
    for (const scheduler::MemberId id : state.on(one.node)) {
      const scheduler::Member& member = state.member(id);
      if ((member.holding.devices >> device.device & 1) == 0) continue;
      held = true;
      others |= planner.jobs()[member.job].job.priority >= static_cast<int32_t>(config::Rank::kNormal);
    }
    one.is_low = held && !others;
    all.push_back({.uuid = device.reading.key,
                   .node = device.node,
                   .device = device.device,
                   .limit = limit->second,
                   .cap = one.cap});
  }
  const std::vector<std::optional<double>> caps =
      scheduler::DecideCaps(cluster, drawn, devices, {.above = rule_->above, .least = rule_->least});
  std::vector<Change> changes;
  for (size_t i = 0; i < all.size(); ++i) {
    const double before = all[i].cap.value_or(all[i].limit.now);
    all[i].cap = caps[i];
    const double after = caps[i].value_or(all[i].limit.now);
    if (before == after) continue;
    if (caps[i] && std::abs(before - after) < kLeastStep * all[i].limit.now) continue;
    changes.push_back(std::move(all[i]));
  }
  return changes;
}

// Reads the limits before any is lowered. A device whose limit cannot be read is asked again later.
net::Task<void> PowerCaps::Learn(std::vector<std::string> uuids) {
  busy_ = true;
  for (const std::string& uuid : uuids) {
    absl::StatusOr<PowerLimit> limit = absl::UnavailableError("not read");
    (co_await env_.off_loop([&] {
      limit = env_.read(uuid);
      return absl::OkStatus();
    })).IgnoreError();
    if (limit.ok()) {
      limits_[uuid] = *limit;
    } else {
      Fail(limit.status());
    }
  }
  busy_ = false;
}

void PowerCaps::Fail(const absl::Status& why) {
  next_ = context_.now() + kCapRetry;
  std::string trouble = fmt::format("power limits cannot be set: {}", conf::Std(why.message()));
  if (absl::IsPermissionDenied(why)) trouble += "; run the gateway as root, or remove power.cap_low_bands";
  if (trouble != trouble_) log::Warn("no power caps", {{"why", trouble}});
  trouble_ = std::move(trouble);
}

// The usual limits of all devices whose limit is lowered, or is about to be.
net::Task<absl::Status> PowerCaps::Keep() {
  nlohmann::json usual = nlohmann::json::object();
  for (const auto& [uuid, capped] : capped_) usual[uuid] = capped.usual;
  co_return co_await env_.off_loop([&] { return net::ReplaceFile(env_.file, usual.dump(), 0600); });
}

net::Task<void> PowerCaps::RestoreEarlier() {
  busy_ = true;
  std::string text;
  (co_await env_.off_loop([&] {
    const absl::StatusOr<std::string> read = net::ReadFile(env_.file, kMostOfCapsFile);
    if (read.ok()) text = *read;
    return absl::OkStatus();
  })).IgnoreError();
  const nlohmann::json usual = conf::ParseJson(text);
  bool all = true;
  if (usual.is_object()) {
    for (const auto& [uuid, watts] : usual.items()) {
      if (!watts.is_number()) continue;
      const absl::Status set = co_await env_.off_loop([&] { return env_.set(uuid, watts.get<double>()); });
      if (set.ok() || absl::IsNotFound(set)) {  // it may have left the machine
        log::Info("usual power limit restored", {{"device", uuid}});
      } else {
        Fail(set);
        all = false;
      }
    }
  }
  restored_ = all;
  if (all && usual.is_object() && !usual.empty()) (co_await Keep()).IgnoreError();
  busy_ = false;
}

net::Task<bool> PowerCaps::Set(Change change) {
  const double watts = change.cap.value_or(change.limit.now);
  const absl::Status set = co_await env_.off_loop([&] { return env_.set(change.uuid, watts); });
  if (set.ok()) {
    trouble_.clear();
    co_return true;
  }
  Fail(set);
  co_return false;
}

net::Task<void> PowerCaps::Record(Change change) {
  ledger::Event event;
  event.kind = ledger::Kind::kAction;
  event.action = change.cap ? "device.cap" : "device.uncap";
  event.actor = "control";
  event.subject = fmt::format("{}/{}", change.node, change.device);
  nlohmann::ordered_json detail = {{"usual_watts", change.limit.now}};
  if (change.cap) detail["watts"] = std::round(*change.cap);
  detail["reason"] = change.cap ? "a power budget is short, and only work of the priority batch holds it"
                                : "it has its usual limit again";
  event.detail = detail.dump();
  if (const absl::Status recorded = co_await context_.record(std::move(event)); !recorded.ok())
    log::Warn("a power cap is not recorded", {{"why", conf::Std(recorded.message())}});
}

net::Task<void> PowerCaps::Apply(std::vector<Change> changes) {
  busy_ = true;
  for (const Change& change : changes) {
    const bool first = !capped_.contains(change.uuid);
    if (change.cap && first) {
      capped_[change.uuid] = {
          .node = change.node, .device = change.device, .usual = change.limit.now, .watts = change.limit.now};
      if (const absl::Status kept = co_await Keep(); !kept.ok()) {
        capped_.erase(change.uuid);
        Fail(kept);
        break;
      }
    }
    if (!co_await Set(change)) {
      if (change.cap && first) capped_.erase(change.uuid);
      break;
    }
    if (first || !change.cap) co_await Record(change);
    if (change.cap) {
      capped_[change.uuid].watts = *change.cap;
    } else {
      capped_.erase(change.uuid);
      (co_await Keep()).IgnoreError();  // else it is set once more after a restart
    }
  }
  busy_ = false;
}

net::Task<void> PowerCaps::Restore() {
  closing_ = true;
  for (const auto& [uuid, capped] : std::map(capped_)) {
    const absl::Status set = co_await env_.off_loop([&] { return env_.set(uuid, capped.usual); });
    if (set.ok()) {
      capped_.erase(uuid);
    } else {
      log::Warn("a power limit stays lowered until the next start",
                {{"device", uuid}, {"why", conf::Std(set.message())}});
    }
  }
  if (restored_ && !env_.file.empty() && !limits_.empty()) (co_await Keep()).IgnoreError();
}

std::vector<PowerCapStatus> PowerCaps::Rows() const {
  std::vector<PowerCapStatus> rows;
  for (const auto& [uuid, capped] : capped_)
    rows.push_back(
        {.node = capped.node, .device = capped.device, .watts = capped.watts, .usual_watts = capped.usual});
  std::ranges::sort(rows, {}, [](const PowerCapStatus& row) { return std::pair(row.node, row.device); });
  return rows;
}

}  // namespace gateway::control
