#include "gateway/control/workloads/orphans.h"

#include <fmt/format.h>

#include <bit>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "gateway/control/workloads/grant.h"
#include "gateway/log.h"

namespace gateway::control {

void Orphans::Found(const plugins::launchers::RunStatus& run, bool restores) {
  if (workloads_.Find(run.id) != nullptr) return;
  Workload workload;
  workload.id = run.id;
  workload.kind = Kind::kOrphan;
  workload.state = State::kDraining;
  workload.afterwards = Afterwards::kEnds;
  workload.since = workload.wanted = workload.started = context_.now();
  workload.why = "it has no record";
  workload.actor = "control";
  workload.saved = true;
  Member member;
  member.run = run.id;
  member.user = run.user;
  member.asked = member.started = true;
  member.at.holding.node = scheduler::kNone;
  member.ended = run.state == plugins::launchers::RunState::kEnded;
  const std::optional<scheduler::Holding> holding = HoldingOf(context_.cluster(), run.grant);
  if (holding) member.at.holding = *holding;
  workload.members.push_back(std::move(member));
  const Workload& added = workloads_.Add(std::move(workload));
  const bool restored = restores && holding && context_.planning->Restore(workloads_.RestoredJobOf(added));
  log::Warn("a run without a record is ended", {{"run", run.id}, {"restored", restored}});
}

// Never requested again: the planner knows it only where it runs.
scheduler::Job Orphans::AskOf(const Workload& workload) const {
  const scheduler::Holding& holding = workload.members.front().at.holding;
  scheduler::Job job;
  job.id = workload.id;
  job.queue = context_.planning->first_queue();
  job.user = "tidegate";
  job.work = scheduler::WorkClass::kInference;
  job.preemptible = false;
  job.submitted = workload.wanted;
  scheduler::Ask ask{.cpu_milli = holding.cpu_milli, .memory_mib = holding.memory_mib};
  if (const int count = std::popcount(holding.devices); count > 0)
    ask.devices.push_back({.count = static_cast<uint16_t>(count)});
  job.roles = {{.name = "run", .ask = std::move(ask)}};
  return job;
}

absl::StatusOr<plugins::launchers::RunSpec> Orphans::SpecOf(const Workload& workload, uint32_t) const {
  return absl::FailedPreconditionError(fmt::format("{} has no record, so it cannot be started", workload.id));
}

void Orphans::Fail(Workload& workload, std::string why, Blame) {
  workloads_.End(workload, Afterwards::kFails, std::move(why));
}

std::string Orphans::ActionOf(const Workload& workload) const {
  if (workload.all_ended()) return {};
  return IsReplicaRun(workload.id) ? "replica.stop" : "job.stop";
}

std::string Orphans::DetailOf(const Workload& workload, bool) const {
  return nlohmann::json{{"reason", workload.why}}.dump();
}

}  // namespace gateway::control
