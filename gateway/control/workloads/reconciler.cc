#include "gateway/control/workloads/reconciler.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "conf/text.h"
#include "gateway/log.h"

namespace gateway::control {
namespace {

using plugins::launchers::RunState;
using plugins::launchers::RunStatus;

constexpr conf::Duration kInterval = std::chrono::seconds(1);
constexpr conf::Duration kMissing = std::chrono::seconds(3);  // before a run is taken to be gone

}  // namespace

// Numbers of tenants are this process's own; records have names.
void Reconciler::NameTenant(Workload& workload) const {
  if (workload.kind != Kind::kJob) return;
  const auto name = [&](scheduler::MemberAt& at) {
    if (at.holding.isolation == scheduler::Isolation::kTenant)
      at.holding.tenant = context_.planning->TenantNumber(workload.file().job.tenant);
  };
  for (Member& member : workload.members) name(member.at);
  for (scheduler::MemberAt& at : workload.next) name(at);
}

void Reconciler::TakeOver(std::vector<Workload> known, const Runs& runs) {
  std::map<std::string_view, const RunStatus*> by_id;
  for (const RunStatus& run : runs) by_id.emplace(run.id, &run);
  // All jobs are added first: a job looks up the jobs that it comes after.
  for (Workload& one : known) workloads_.Add(std::move(one));
  std::vector<std::string> ids;  // a replica may be dropped
  for (const Workload& workload : workloads_.all()) {
    if (workload.state != State::kStopped) ids.push_back(workload.id);
  }
  for (const std::string& id : ids) {
    Workload& workload = *workloads_.Find(id);
    const bool starts = workload.state == State::kPlaced || workload.state == State::kStarting;
    const auto is_there = [&](const Member& member) { return by_id.contains(member.run); };
    if (workload.kind == Kind::kReplica && std::ranges::none_of(workload.members, is_there)) {
      workloads_.Drop(workload);
      continue;
    }
    for (Member& member : workload.members) {
      if (!workload.holds()) continue;
      // The gateway that saw its end may have been killed before it recorded the device time.
      if (member.ended) {
        member.asked = member.gone || is_there(member);
        continue;
      }
      // Workloads that were starting are started again: a launcher that already has the run starts no second
      // one.
      member.started = is_there(member);
      member.asked = member.started || !starts;
      if (member.started || starts) continue;
      member.ended = true;
      member.why = "it was gone when this gateway started";
    }
    workload.adopted = workload.holds();
    NameTenant(workload);
    if (workload.state == State::kPending && !workloads_.KindOf(workload).MayBePlaced(workload)) continue;
    const bool restored = context_.planning->Restore(workloads_.RestoredJobOf(workload));
    log::Info("workload found",
              {{"workload", workload.id}, {"state", Name(workload.state)}, {"restored", restored}});
    if (!workload.holds()) continue;
    // A replica may have stopped answering meanwhile.
    const bool sleeps = workload.state == State::kAsleep;
    // It may have fallen asleep before this process could note it.
    workload.wakes |= workload.state == State::kSaving && workload.afterwards == Afterwards::kSleeps;
    if (workload.kind == Kind::kReplica && workload.state != State::kDraining && !sleeps) {
      const bool served = workload.state == State::kRunning && context_.served(id);
      workloads_.Enter(workload, State::kStarting,
                       context_.shared ? "it was running when this gateway began to lead"
                                       : "it was running when this gateway started");
      workload.serving.continues = served;
    }
    if (!restored) {
      workloads_.End(workload, workload.kind == Kind::kReplica ? Afterwards::kFails : Afterwards::kWaits,
                     "its devices are no longer in the cluster");
    }
  }
  LearnRuns();
  Compare(runs, context_.now());
}

// Learns from the jobs that ended before this process and are still kept.
void Reconciler::LearnRuns() {
  std::vector<const Workload*> ended;
  for (const Workload& workload : workloads_.all()) {
    const bool ran = workload.outcome == Outcome::kDone || workload.outcome == Outcome::kFailed;
    if (workload.kind == Kind::kJob && workload.over() && ran && workload.started != conf::TimePoint())
      ended.push_back(&workload);
  }
  std::ranges::sort(ended, {}, [](const Workload* job) { return std::tie(job->since, job->id); });
  std::vector<std::pair<scheduler::Job, conf::Duration>> runs;
  runs.reserve(ended.size());
  for (const Workload* job : ended)
    runs.emplace_back(workloads_.KindOf(*job).AskOf(*job), job->done + (job->since - job->started));
  context_.planning->LearnRuns(runs);
}

void Reconciler::Tick() {
  const conf::TimePoint now = context_.now();
  if (reconciling_ || now < next_) return;
  next_ = now + kInterval;
  context_.spawn(Reconcile());
}

net::Task<void> Reconciler::Reconcile() {
  reconciling_ = true;
  const conf::TimePoint began = context_.now();
  const absl::StatusOr<Runs> runs = co_await context_.launcher->List();
  reconciling_ = false;
  trouble_ = runs.ok() ? "" : std::string(conf::Std(runs.status().message()));
  if (runs.ok()) {
    reconciled_ = true;
    Compare(*runs, began);
  }
  context_.wake();
}

// The launcher does not know the run. A run that was to end before the launcher was asked is gone; another
// may be about to appear.
void Reconciler::NoteMissing(Workload& workload, Member& member, conf::TimePoint began) {
  if (!workload.holds() || member.ended || !member.started) return;
  const conf::TimePoint now = context_.now();
  if (!member.missing) member.missing = now;
  const bool told =
      workload.state == State::kDraining && member.told && !workload.busy && member.told_at < began;
  if (!told && now - *member.missing < kMissing) return;
  member.ended = true;
  member.gone = member.noticed = now;
  member.why = "the launcher no longer lists it";
}

void Reconciler::UpdateMember(Workload& workload, Member& member, const RunStatus& run) {
  member.missing.reset();
  member.log = run.log;
  member.user = run.user;
  if (run.started) member.began = run.started;
  if (run.alive) member.alive = run.alive;
  if (!workload.holds() || member.ended) return;
  member.started |= !workload.busy;  // the result of a start that got no answer
  member.running = run.state == RunState::kRunning;
  if (run.port != 0) {
    member.host = run.host;
    member.port = run.port;
  }
  if (run.state != RunState::kEnded) {
    if (member.running || !run.why.empty()) member.why = run.why;  // what it waited for is over
    return;
  }
  member.ended = true;
  member.noticed = context_.now();
  member.gone = run.ended.value_or(*member.noticed);
  member.exit_code = run.exit_code;
  member.signal = run.signal;
  member.why = run.why;
}

void Reconciler::Compare(const Runs& runs, conf::TimePoint began) {
  on_runs(runs);
  std::map<std::string_view, const RunStatus*> by_id;
  for (const RunStatus& run : runs) {
    if (IsReplicaRun(run.id) || IsJobRun(run.id)) by_id.emplace(run.id, &run);
  }
  std::vector<std::string> ids;  // a found run may drop a workload
  for (Workload& workload : workloads_.all()) {
    for (const Member& member : workload.before) by_id.erase(member.run);
    for (Member& member : workload.members) {
      const auto found = by_id.find(member.run);
      if (found == by_id.end()) {
        NoteMissing(workload, member, began);
      } else {
        UpdateMember(workload, member, *found->second);
        by_id.erase(found);
      }
    }
    if (workload.holds()) ids.push_back(workload.id);
  }
  // Before the planner plans: running workloads keep their devices.
  for (const auto& [id, run] : by_id) on_unknown(*run);
  for (const std::string& id : ids) workloads_.Reconcile(*workloads_.Find(id));
}

}  // namespace gateway::control
