#include "scheduler/planner.h"

#include <algorithm>
#include <cassert>
#include <utility>

#include "scheduler/cycle/cycle.h"
#include "scheduler/cycle/planning_snapshot.h"
#include "scheduler/cycle/planning_state.h"

namespace scheduler {
namespace {

constexpr conf::Duration kLookAgain = std::chrono::minutes(1);

// The order by the present shares.
std::optional<OrderFinding> FindOrder(PlanningState& s, JobIndex job, conf::TimePoint now) {
  const JobEntry& entry = s.jobs[job];
  if (entry.phase != Phase::kPending || s.held.contains({entry.sequence, job})) return std::nullopt;
  s.queues.ComputeShares();
  const GroupId own = s.pending.GroupOf(entry);
  const auto rank_of = [&](double own_score, double common, const JobEntry& of) {
    return Rank{own_score + common + s.order.OfWait(of, now), of.sequence};
  };
  const Rank rank = rank_of(s.order.OfJob(entry), s.CommonScore(own, job), entry);
  OrderFinding finding{.waiting = static_cast<uint32_t>(s.pending.size())};
  for (const GroupId g : s.pending.occupied()) {
    const auto& jobs = s.pending[g].jobs;
    const double common = s.CommonScore(g, jobs.begin()->second.job);
    finding.ahead += static_cast<uint32_t>(std::ranges::count_if(jobs, [&](const auto& at) {
      return rank_of(-at.first.first, common, s.jobs[at.second.job]).Before(rank);
    }));
  }
  const JobAccount& account = s.accounts[job];
  finding.parts =
      s.order.PartsOf(entry, s.queues, account.account, account.ranked_by, s.ExpectedHours(own), now);
  if (const auto& of = s.pending[own].run_class) finding.run = s.runs.Estimate(*of);
  return finding;
}

}  // namespace

Planner::Planner(const Cluster& cluster, const std::vector<Queue>& queues, Policy policy)
    : state_(std::make_unique<PlanningState>(cluster, queues, std::move(policy))) {}

Planner::Planner(const Snapshot& snapshot, Policy policy)
    : state_(std::make_unique<PlanningState>(snapshot.cluster, snapshot.queues, std::move(policy))) {
  Restore(*state_, snapshot);
}

Planner::~Planner() = default;

JobIndex Planner::Submit(Job job, conf::TimePoint now) {
  state_->AdvanceTo(now);
  const JobIndex index = state_->Add(std::move(job));
  state_->Learn(index);
  state_->Wait(index);
  return index;
}

void Planner::Ended(JobIndex job, conf::TimePoint now) {
  state_->AdvanceTo(now);
  if (state_->jobs[job].phase == Phase::kRunning) state_->LearnRun(job);
  state_->Leave(job);
}

void Planner::Withdraw(JobIndex job, conf::TimePoint now) {
  state_->AdvanceTo(now);
  state_->Leave(job);
}

void Planner::Failed(JobIndex job, conf::TimePoint now) {
  state_->AdvanceTo(now);
  JobEntry& entry = state_->jobs[job];
  if (++entry.restarts > entry.job.restart_budget) {
    state_->failed_for_good.push_back(entry.job.id);
    return state_->Leave(job);
  }
  state_->KeepWork(entry);
  state_->Release(job);
  state_->Wait(job);
}

void Planner::Stopped(JobIndex job, conf::TimePoint now) {
  state_->AdvanceTo(now);
  JobEntry& entry = state_->jobs[job];
  assert(entry.phase == Phase::kStopping);
  if (entry.after_stop == AfterStop::kLeaves) state_->LearnRun(job);
  state_->KeepWork(entry);
  switch (entry.after_stop) {
    case AfterStop::kLeaves:
      state_->failed_for_good.push_back(entry.job.id);
      return state_->Leave(job);
    case AfterStop::kWaits:
      state_->Release(job);
      return state_->Wait(job);
    case AfterStop::kSuspends:
      break;
  }
  state_->Release(job);
  entry.phase = Phase::kSuspended;
  state_->suspended.emplace(entry.sequence, job);
}

void Planner::Moved(JobIndex job, conf::TimePoint now) {
  state_->AdvanceTo(now);
  state_->DropLeaving(job);
}

JobIndex Planner::HandOver(JobIndex job, Job replacement, conf::TimePoint now) {
  state_->AdvanceTo(now);
  const JobIndex to = state_->Add(std::move(replacement));
  state_->HandOver(job, to);
  return to;
}

JobIndex Planner::Replace(JobIndex job, Job replacement, conf::TimePoint now) {
  state_->AdvanceTo(now);
  assert(state_->jobs[job].phase == Phase::kRunning);
  return state_->Replace(job, std::move(replacement));
}

void Planner::Unmoved(JobIndex job, conf::TimePoint now) {
  state_->AdvanceTo(now);
  state_->TakeBackMove(job);
}

void Planner::Checkpointed(JobIndex job, conf::TimePoint now) {
  state_->jobs[job].checkpointed = now;
}

void Planner::Idle(JobIndex job, conf::TimePoint since) {
  state_->jobs[job].idle_since = since;
}

void Planner::Used(JobIndex job, conf::TimePoint now) {
  state_->AdvanceTo(now);
  JobEntry& entry = state_->jobs[job];
  entry.idle_since.reset();
  if (state_->suspended.erase({entry.sequence, job}) > 0) state_->Wait(job);
}

void Planner::NodeFault(NodeId node, conf::TimePoint now) {
  state_->AdvanceTo(now);
  state_->FailMembersOn(node);
  state_->Fault(node, now);
}

void Planner::DeviceFault(NodeId node, int device, conf::TimePoint now) {
  state_->AdvanceTo(now);
  state_->FailMembersOn(node, uint32_t{1} << device);
  state_->BreakDevice(node, device);
  state_->Fault(node, now);
}

void Planner::NodeRepaired(NodeId node, conf::TimePoint now) {
  state_->AdvanceTo(now);
  auto record = state_->faults.extract(node);
  state_->Mend(node);
  const FaultPolicy& policy = state_->policy.faults;
  size_t recent = 0;
  if (!record.empty()) {
    std::vector<conf::TimePoint>& times = record.mapped();
    recent = static_cast<size_t>(
        std::ranges::count_if(times, [&](conf::TimePoint at) { return at + policy.window >= now; }));
    state_->faults.insert(std::move(record));
  }
  state_->SetHealth(node, recent >= policy.quarantine_after ? Health::kQuarantined
                          : recent >= policy.suspect_after  ? Health::kSuspect
                                                            : Health::kHealthy);
}

void Planner::SetHealth(NodeId node, Health health, conf::TimePoint now) {
  state_->AdvanceTo(now);
  if (health == Health::kHealthy) state_->Mend(node);
  state_->SetHealth(node, health);
}

void Planner::UpdateNode(NodeId node, Health health, uint32_t broken_devices, HostAmounts others,
                         conf::TimePoint now) {
  state_->AdvanceTo(now);
  state_->SetBrokenDevices(node, broken_devices);
  state_->SetOthers(node, others);
  state_->SetHealth(node, health);
}

void Planner::UpdateEmptied(NodeId node, uint32_t devices, conf::TimePoint now) {
  state_->AdvanceTo(now);
  state_->SetEmptied(node, devices);
}

void Planner::UpdateDrawn(NodeId node, double watts) {
  ClusterState& state = state_->state;
  const int64_t before = state.unmodelled(node);
  state.SetDrawn(node, watts);
  if (!state.has_power_budgets() || state.unmodelled(node) == before) return;
  ++state_->changed;
  if (state.unmodelled(node) < before) ++state_->freed;
}

void Planner::UpdateKindWatts(KindId kind, KindWatts watts) {
  if (state_->state.kind_watts(kind) == watts) return;
  state_->state.SetKindWatts(kind, watts);
  if (!state_->state.has_power_budgets()) return;
  ++state_->changed;
  ++state_->freed;
}

Plan Planner::Run(conf::TimePoint now, Rng& rng) {
  state_->AdvanceTo(now);
  state_->planned = now;
  state_->RecoverNodes();
  state_->EndPatience();
  return RunCycle(*state_, now, rng);
}

Explanation Planner::Explain(JobIndex job, conf::TimePoint now) const {
  const PlanningState& s = *state_;
  ExplainInput input{.state = s.state,
                     .shapes = s.shapes,
                     .jobs = s.jobs,
                     .job = job,
                     .now = now,
                     .unknown_estimate = s.policy.backfill.unknown_estimate,
                     .quotas = {},
                     .unfinished = {},
                     .reservations = s.reservations,
                     .line_stopped_by = s.line_stopped_by};
  const JobAccount& account = s.accounts[job];
  const QuotaVerdict verdict = s.queues.Admit(account.account, account.minimum);
  if (!verdict.admitted()) {
    input.quotas.push_back(RefusalBy(s.queues, verdict, s.state.cluster(), s.jobs[job].job.user));
  }
  for (const std::string& id : s.jobs[job].job.after) {
    if (s.jobs.Find(id) != kNone) input.unfinished.push_back(id);
  }
  input.resources = &s.resources;
  input.order = FindOrder(*state_, job, now);
  return scheduler::Explain(input);
}

Snapshot Planner::TakeSnapshot(conf::TimePoint now) const {
  state_->AdvanceTo(now);
  return scheduler::TakeSnapshot(*state_);
}

uint64_t Planner::version() const {
  return state_->version;
}

Rng CycleRng(uint64_t seed, uint64_t version) {
  return Rng(seed ^ (version * 0x9e3779b97f4a7c15));
}

const ClusterState& Planner::state() const {
  return state_->state;
}
const JobTable& Planner::jobs() const {
  return state_->jobs;
}
const ShapeTable& Planner::shapes() const {
  return state_->shapes;
}
const QueueTree& Planner::queues() const {
  return state_->queues;
}
const ResourceCounts& Planner::resources() const {
  return state_->resources;
}
const DemandMix& Planner::mix() const {
  return state_->learner.mix();
}
size_t Planner::pending() const {
  return state_->pending.size() + state_->held.size();
}

std::optional<conf::TimePoint> Planner::NextReservedStart() const {
  std::optional<conf::TimePoint> next;
  if (state_->plans_again) next = state_->planned;
  for (const Reservation& reservation : state_->reservations) {
    if (!reservation.is_nomination() && reservation.start > state_->planned)
      next = next ? std::min(*next, reservation.start) : reservation.start;
  }
  return next;
}

std::optional<conf::TimePoint> Planner::NextDue() const {
  std::optional<conf::TimePoint> due = NextReservedStart();
  const auto at = [&](conf::TimePoint time) { due = due ? std::min(*due, time) : time; };
  for (const auto& [sequence, job] : state_->timed) {
    const JobEntry& entry = state_->jobs[job];
    if (entry.phase != Phase::kRunning) continue;
    if (entry.job.limit) at(entry.started + *entry.job.limit);
    if (entry.idle_since && entry.job.idle_timeout > conf::Duration::zero()) {
      at(*entry.idle_since + entry.job.idle_timeout);
    }
  }
  for (const auto& [sequence, job] : state_->held) {
    const JobEntry& entry = state_->jobs[job];
    // After its start time it waits for other jobs, whose ends are reported.
    if (entry.job.not_before && *entry.job.not_before > state_->planned) at(*entry.job.not_before);
  }
  // Work that could not leave a device with a fault is considered again.
  if (state_->policy.moves.per_hour > 0 && !state_->emptied_devices.empty()) at(state_->planned + kLookAgain);
  if (!state_->patience.empty()) at(std::get<conf::TimePoint>(*state_->patience.begin()));
  for (const auto& [node, times] : state_->faults) {
    if (state_->state.health(node) == Health::kSuspect)
      at(times.back() + state_->policy.faults.recover_after);
  }
  return due;
}

Plan MakePlan(const Snapshot& snapshot, const Policy& policy, conf::TimePoint now, Rng& rng) {
  return Planner(snapshot, policy).Run(now, rng);
}

}  // namespace scheduler
