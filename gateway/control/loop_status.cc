#include <fmt/format.h>

#include <array>

#include "gateway/control/loop.h"

namespace gateway::control {
namespace {

std::string_view LawName(scheduler::autoscale::Law law) {
  static constexpr std::array<std::string_view, 4> kNames = {"demand", "kpa", "hpa", "schedule"};
  return kNames[static_cast<size_t>(law)];
}

std::string AddressOf(const Replica& replica) {
  return replica.endpoint ? replica.endpoint->url.authority() : std::string();
}

}  // namespace

Status ControlLoop::status(conf::TimePoint now) const {
  Status out;
  out.begun = begun_;
  out.launcher = launcher_->name();
  out.trouble = trouble_;
  out.nodes = Doubts();
  out.faults = faults_;
  out.suspicions = node_watch_.suspicions();
  out.launches = launches_;
  out.failures = failures_;
  out.devices = metering_.totals();
  out.replicas.reserve(fleet_.all().size());
  for (const Replica& r : fleet_.all()) {
    out.replicas.push_back({.run = r.run,
                            .model = r.model,
                            .state = r.state,
                            .node = r.grant.node,
                            .kind = r.grant.kind,
                            .devices = r.grant.devices,
                            .address = AddressOf(r),
                            .since = r.since,
                            .wanted = r.wanted,
                            .adopted = r.adopted,
                            .in_flight = r.in_flight(),
                            .why = r.state == State::kWaiting && !r.unplaced.empty() ? r.unplaced : r.why});
  }
  for (const auto& [model, pool] : pools_) {
    if (!pool.owned) continue;
    ModelStatus& row = out.models.emplace_back();
    row.model = model;
    row.policy = pool.policy.file;
    row.law = LawName(pool.policy.scaling.law);
    row.min = pool.policy.scaling.min;
    row.max = pool.policy.scaling.max;
    row.demand = pool.decision.demand;
    row.wanted = pool.decision.wanted;
    row.why = pool.decision.why;
    row.capacity = pool.capacity_by;
    row.in_flight = pool.signals.in_flight;
    row.held = pool.signals.held;
    for (size_t s = 0; s < kStates; ++s) row.replicas[s] = fleet_.Count(model, static_cast<State>(s));
    row.failures = pool.crashes.failures();
    if (!pool.crashes.MayStart(now)) row.next_start = pool.crashes.next();
    row.trouble = pool.trouble;
  }
  for (const ColdStarts::Row& row : cold_starts_.rows()) {
    out.cold_starts.push_back({row.model, row.kind, row.starts,
                               cold_starts_.Quantile(row.model, row.kind, 0.5),
                               cold_starts_.Quantile(row.model, row.kind, 0.9)});
  }
  return out;
}

std::optional<ScalingHistory> ControlLoop::history(const std::string& model) const {
  const auto pool = pools_.find(model);
  if (pool == pools_.end() || !pool->second.owned) return std::nullopt;
  ScalingHistory out{.file = pool->second.policy.file, .policy = pool->second.policy.scaling};
  const conf::Duration p90 = cold_starts_.Quantile(model, 0.9);
  if (p90 > conf::Duration::zero()) out.cold_start = p90;
  const auto& steps = pool->second.history.steps();
  out.steps.assign(steps.begin(), steps.end());
  return out;
}

}  // namespace gateway::control
