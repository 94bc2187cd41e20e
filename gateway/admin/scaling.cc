// The replicas that Tidegate runs, the demand of each model, and the reasons.
#include <fmt/format.h>

#include "conf/time.h"
#include "gateway/admin/answers/scaling.h"
#include "gateway/admin/handlers.h"
#include "gateway/admin/input.h"
#include "gateway/admin/scope.h"
#include "gateway/config/scaling_policy.h"

namespace gateway::admin {
namespace {

using answers::TextOrNull;
using control::ReplicaState;

std::vector<std::string> DevicesOf(const control::MemberPlace& member) {
  std::vector<std::string> devices;
  for (const uint8_t device : member.devices) devices.push_back(std::to_string(device));
  return devices;
}

std::optional<answers::ReplicaStart> StartOf(const control::StartPhases& phases) {
  using control::StartPhase;
  if (phases.start() == conf::Duration::zero()) return std::nullopt;
  return answers::ReplicaStart{.placed_ms = conf::ToMillis(phases[StartPhase::kPlaced]),
                               .fetched_ms = conf::ToMillis(phases[StartPhase::kFetched]),
                               .process_ms = conf::ToMillis(phases[StartPhase::kProcess]),
                               .loaded_ms = conf::ToMillis(phases[StartPhase::kLoaded]),
                               .compiled_ms = conf::ToMillis(phases[StartPhase::kCompiled]),
                               .first_token_ms = conf::ToMillis(phases[StartPhase::kFirstToken]),
                               .weights_bytes = phases.transferred,
                               .weights_bytes_of_neighbours = phases.neighbours};
}

}  // namespace

Answer ListReplicas(const Operations& operations, const Call& call) {
  const std::string only = call.Query("model");
  std::vector<answers::Replica> all;
  for (const control::ReplicaStatus& replica : operations.scaling().replicas) {
    if (!only.empty() && replica.model != only) continue;
    answers::Replica& out = all.emplace_back();
    out.id = replica.run;
    out.model = replica.model;
    out.version = TextOrNull(replica.version);
    out.state = Name(replica.state);
    const control::MemberPlace leader = replica.members.empty() ? control::MemberPlace() : replica.members[0];
    out.node = TextOrNull(leader.node);
    out.device_kind = TextOrNull(leader.kind);
    out.devices = DevicesOf(leader);
    for (size_t rank = 0; rank < replica.members.size(); ++rank) {
      const control::MemberPlace& member = replica.members[rank];
      out.members.push_back({.rank = rank,
                             .run = member.run,
                             .node = member.node,
                             .device_kind = TextOrNull(member.kind),
                             .devices = DevicesOf(member),
                             .state = std::string(member.state),
                             .reason = TextOrNull(member.why)});
    }
    out.address = TextOrNull(replica.address);
    out.age_ms = conf::ToMillis(call.now - replica.wanted);
    out.in_state_ms = conf::ToMillis(call.now - replica.since);
    out.adopted = replica.adopted;
    out.outstanding_requests = replica.in_flight;
    out.reason = replica.why;
    if (replica.arrival.members > 0) {
      out.weights = answers::ReplicaWeights{.bytes = replica.arrival.bytes};
      if (replica.arrival.of > 0) out.weights->total_bytes = replica.arrival.of;
    }
    out.start = StartOf(replica.phases);
    out.replaces = TextOrNull(replica.replaces);
    if (replica.moved != conf::TimePoint()) out.moved = answers::Time{replica.moved};
    out.gain = TextOrNull(replica.gain);
  }
  return ListPage(std::move(all), &answers::Replica::id, call);
}

Answer ListScaling(const Operations& operations, const Call& call) {
  const std::string only = call.Query("model");
  std::vector<answers::Scaling> all;
  const VisibleModels visible(call);
  const control::Status status = operations.scaling();
  for (const control::ModelStatus& model : status.models) {
    if ((!only.empty() && model.model != only) || !visible.Has(model.model)) continue;
    const auto in = [&](ReplicaState state) { return model.replicas[static_cast<size_t>(state)]; };
    answers::Scaling& out = all.emplace_back();
    out.model = model.model;
    out.policy = model.policy;
    out.law = model.law;
    out.min = model.min;
    out.max = model.max;
    out.demand = model.demand;
    out.wanted = model.wanted;
    out.reason = model.why;
    out.headroom = model.headroom;
    out.capacity_by = model.capacity;
    if (model.lead_time > conf::Duration::zero()) out.lead_time_ms = conf::ToMillis(model.lead_time);
    out.outstanding_requests = model.in_flight;
    out.held_requests = model.held;
    out.waiting = in(ReplicaState::kWaiting);
    out.launching = in(ReplicaState::kLaunching);
    out.warming = in(ReplicaState::kWarming);
    out.ready = in(ReplicaState::kReady);
    out.draining = in(ReplicaState::kDraining);
    out.stopping = in(ReplicaState::kStopping);
    out.asleep = in(ReplicaState::kAsleep);
    out.waking = in(ReplicaState::kWaking);
    out.failed_starts = model.failures;
    out.next_start = answers::TimeOrNull(model.next_start);
    out.trouble = TextOrNull(model.trouble);
    const auto list = [&](const std::vector<control::ColdStart>& starts,
                          std::vector<answers::ColdStart>& to) {
      for (const control::ColdStart& start : starts) {
        if (start.model != model.model) continue;
        to.push_back({.device_kind = TextOrNull(start.kind),
                      .starts = start.starts,
                      .p50_ms = conf::ToMillis(start.p50),
                      .p90_ms = conf::ToMillis(start.p90)});
      }
    };
    list(status.cold_starts, out.cold_starts);
    list(status.wakes, out.wakes);
    for (const control::LearnedStarts::Row& row : status.start_phases) {
      if (row.model != model.model) continue;
      for (size_t i = 0; i < control::kStartPhases; ++i) {
        out.start_phases.push_back({.device_kind = TextOrNull(row.kind),
                                    .phase = control::kStartPhaseNames[i],
                                    .p50_ms = conf::ToMillis(row.p50[i]),
                                    .p90_ms = conf::ToMillis(row.p90[i])});
      }
    }
    for (const control::PrefetchStatus& fetch : status.prefetches) {
      if (fetch.model != model.model) continue;
      out.prefetches.push_back({.run = fetch.run,
                                .node = fetch.node,
                                .age_ms = conf::ToMillis(call.now - fetch.since),
                                .reason = TextOrNull(fetch.why)});
    }
    for (const control::ClassStatus& of : model.classes) {
      out.classes.push_back({.name = of.name,
                             .requests = of.came,
                             .refused_requests = of.refused,
                             .first_tokens_in_time = of.in_time,
                             .first_tokens_late = of.late,
                             .first_tokens_hopeless = of.hopeless,
                             .outstanding_requests = of.at_replicas,
                             .held_requests = of.waiting,
                             .held_prompt_tokens = of.waiting_tokens,
                             .oldest_ms = conf::ToMillis(of.oldest)});
    }
  }
  return ListPage(std::move(all), &answers::Scaling::model, call);
}

Answer ShowScalingHistory(const Operations& operations, const Call& call) {
  const std::optional<control::ScalingHistory> history =
      VisibleModels(call).Has(call.item) ? operations.scaling_history(call.item) : std::nullopt;
  if (!history) {
    return Refuse(api::Code::kNotFound,
                  fmt::format("no policy of this gateway is for a model \"{}\"", call.item), call.request_id);
  }
  answers::ScalingHistory out{.model = call.item,
                              .file = history->file,
                              .policy = {config::ToJson(history->policy).dump()},
                              .members = history->members,
                              .devices_per_replica = history->devices,
                              .cold_start_p90_ms = answers::MillisOrNull(history->cold_start)};
  for (const scheduler::autoscale::Observed& step : history->steps) {
    out.steps.push_back({.at = {step.at},
                         .seconds = step.seconds,
                         .work = step.work,
                         .arrivals_per_second = step.arrivals,
                         .outstanding_requests = step.in_flight,
                         .held_requests = step.held,
                         .occupied = step.occupied,
                         .ready = step.ready,
                         .there = step.there,
                         .demand = step.demand});
  }
  return Json(out);
}

}  // namespace gateway::admin
