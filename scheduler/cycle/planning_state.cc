#include "scheduler/cycle/planning_state.h"

#include <algorithm>
#include <cassert>
#include <utility>

#include "scheduler/placement/policies.h"

namespace scheduler {
namespace {

std::vector<NodeSet> ZoneOf(const Cluster& cluster, const std::vector<std::string>& leaves) {
  if (leaves.empty()) return {};
  std::vector<NodeSet> zone(2, NodeSet(cluster.nodes.size()));
  for (NodeId n = 0; n < cluster.nodes.size(); ++n) {
    bool inside = false;
    for (DomainId d = cluster.nodes[n].domain; d != kNone; d = cluster.fabric.domains[d].parent) {
      inside |= std::ranges::find(leaves, cluster.fabric.domains[d].name) != leaves.end();
    }
    zone[inside ? 0 : 1].Add(n);
  }
  return zone;
}

template <class Key>
void CountDown(std::map<Key, uint32_t>& counts, const Key& key) {
  const auto at = counts.find(key);
  if (--at->second == 0) counts.erase(at);
}

// Moves want to know when jobs end, too.
bool LearnsRuns(const Policy& policy) {
  return Order(policy.order).uses_runs() || policy.moves.per_hour > 0;
}

bool NeedsSizes(const Policy& policy) {
  return FindPlacementPolicy(policy.placement)->needs_sizes ||
         FindPlacementPolicy(policy.inference_placement)->needs_sizes;
}

}  // namespace

PlanningState::PlanningState(const Cluster& cluster, const std::vector<Queue>& list, Policy planning_policy)
    : policy(std::move(planning_policy)),
      queue_list(list),
      state(cluster, NeedsSizes(policy)),
      shapes(cluster),
      jobs(shapes),
      queues(cluster, list, policy.usage_half_life),
      resources(cluster.resources),
      order(policy.order),
      runs(policy.backfill.unknown_estimate),
      learner(cluster),
      placer(state, shapes, *FindPlacementPolicy(policy.placement)),
      inference_placer(state, shapes, *FindPlacementPolicy(policy.inference_placement)),
      gangs(state, shapes, &running_of_array),
      zone(ZoneOf(cluster, policy.inference_zone)) {
  UseMix();
}

void PlanningState::UseMix() {
  placer.SetMix(learner.mix());
  inference_placer.SetMix(learner.mix());
}

void PlanningState::Learn(JobIndex job) {
  const JobEntry& entry = jobs[job];
  bool changed = false;
  for (size_t r = 0; r < entry.shapes.size(); ++r) {
    if (!entry.shapes[r].empty())
      changed |= learner.Observe(shapes[entry.shapes[r].front()], entry.job.roles[r].count);
  }
  if (changed) UseMix();
}

void PlanningState::Learn(const LearnedDemand& known) {
  learner = MixLearner(known);
  UseMix();
}

// Learns from all the work that the job has done, earlier runs included.
void PlanningState::LearnRun(JobIndex job) {
  const JobEntry& entry = jobs[job];
  if (!LearnsRuns(policy) || entry.started == conf::TimePoint()) return;
  const std::optional<RunClass> of = RunHistory::ClassOf(entry.job);
  if (!of) return;
  const bool restarted = entry.done > conf::Duration::zero();
  runs.Add(*of, entry.done + (now - entry.started) -
                    (restarted ? entry.job.checkpoint.restart : conf::Duration()));
}

void PlanningState::Learn(const LearnedRuns& known) {
  runs = RunHistory(known, policy.backfill.unknown_estimate);
}

void PlanningState::AddToPending(JobIndex job) {
  const JobEntry& entry = jobs[job];
  pending.Add(job, entry, ExpectedRun(job), order.OfJob(entry),
              order.uses_runs() ? RunHistory::ClassOf(entry.job) : std::nullopt);
}

double PlanningState::ExpectedHours(GroupId group) {
  const std::optional<RunClass>& of = pending[group].run_class;
  if (!of) return 0;
  if (group >= run_chains.size()) run_chains.resize(pending.groups());
  return runs.ExpectedSeconds(*of, run_chains[group]) / 3600;
}

double PlanningState::CommonScore(GroupId group, JobIndex job) {
  const double score = order.OfAccount(queues, accounts[job].account, accounts[job].ranked_by);
  return order.uses_runs() ? score + order.OfRun(ExpectedHours(group)) : score;
}

const NodeSet* PlanningState::ZoneKeptOff(const JobEntry& entry) const {
  if (zone.empty()) return nullptr;
  return entry.job.work == WorkClass::kInference ? &zone[1] : &zone[0];
}

JobIndex PlanningState::Add(Job job) {
  const QueueIndex queue = queues.Find(job.queue);
  const JobIndex index = jobs.Add(std::move(job), queue);
  const JobEntry& entry = jobs[index];
  if (index >= accounts.size()) accounts.resize(index + size_t{1});
  JobAccount& account = accounts[index];
  account.account = queues.Account(queue, entry.job.user);
  account.wanted = DemandOf(entry, shapes, Extent::kWanted);
  account.minimum = DemandOf(entry, shapes, Extent::kMinimum);
  account.ranked_by = RankedBy(entry, shapes);
  queues.Request(account.account, account.wanted);
  if (!entry.topology.required && entry.topology.wait > conf::Duration::zero()) {
    jobs.RequireNearness(index, true);
    patience.emplace(entry.job.submitted + entry.topology.wait, entry.sequence, index);
  }
  MakeRoomForSignatures();
  return index;
}

void PlanningState::MakeRoomForSignatures() {
  no_room_since.resize(jobs.signatures(), 0);
  impossible_since.resize(jobs.signatures(), 0);
  possible_since.resize(jobs.signatures(), 0);
}

void PlanningState::EndPatience() {
  while (!patience.empty() && std::get<conf::TimePoint>(*patience.begin()) <= now) {
    const auto [until, sequence, job] = *patience.begin();
    patience.erase(patience.begin());
    const JobEntry& entry = jobs[job];
    if (!entry.alive || entry.sequence != sequence) continue;
    const bool waits = entry.phase == Phase::kPending && !held.contains({sequence, job});
    if (waits) pending.Remove(entry);
    jobs.RequireNearness(job, false);
    MakeRoomForSignatures();
    if (waits) AddToPending(job);
  }
}

bool PlanningState::MayStart(const JobEntry& entry, conf::TimePoint at) const {
  if (entry.job.not_before && *entry.job.not_before > at) return false;
  return std::ranges::none_of(entry.job.after, [&](const std::string& id) { return jobs.Find(id) != kNone; });
}

void PlanningState::Wait(JobIndex job) {
  JobEntry& entry = jobs[job];
  entry.phase = Phase::kPending;
  if (MayStart(entry, now)) {
    AddToPending(job);
  } else {
    held.emplace(entry.sequence, job);
  }
}

void PlanningState::Run(JobIndex job, conf::TimePoint at) {
  JobEntry& entry = jobs[job];
  entry.phase = Phase::kRunning;
  entry.started = at;
  entry.checkpointed = at;
  entry.idle_since.reset();
  running.emplace(entry.sequence, job);
  if (entry.job.limit || entry.job.idle_timeout > conf::Duration::zero()) timed.emplace(entry.sequence, job);
  if (!entry.leaving.empty()) moving.emplace(entry.sequence, job);
  if (entry.lost_members) broken.emplace(entry.sequence, job);
  ++running_by_priority[entry.job.priority];
  resources.Take(entry.job.resources);
  if (!entry.job.array.empty()) running_of_array[entry.job.array].insert(job);
}

void PlanningState::Charge(JobIndex job, const Holding& holding) {
  queues.Charge(accounts[job].account, AmountOf(holding, state.view_of(holding.node)));
}

void PlanningState::Refund(JobIndex job, const Holding& holding) {
  queues.Refund(accounts[job].account, AmountOf(holding, state.view_of(holding.node)));
}

std::vector<MemberAt> PlanningState::MembersOf(JobIndex job) const {
  std::vector<MemberAt> members;
  for (const MemberId id : state.of(job)) {
    const Member& member = state.member(id);
    if (!IsLeaving(member)) members.push_back({member.role, member.rank, member.holding});
  }
  std::ranges::sort(members, {}, [](const MemberAt& m) { return std::tuple(m.role, m.rank); });
  return members;
}

bool PlanningState::IsLeaving(const Member& member) const {
  const std::vector<MemberAt>& leaving = jobs[member.job].leaving;
  return std::ranges::find(leaving, MemberAt{member.role, member.rank, member.holding}) != leaving.end();
}

void PlanningState::EndRun(JobIndex job) {
  JobEntry& entry = jobs[job];
  if (running.erase({entry.sequence, job}) == 0) return;
  entry.lost_members = false;  // its next run has all of them
  entry.backfilled = false;
  for (BySequence* const some : {&timed, &moving, &broken}) some->erase({entry.sequence, job});
  CountDown(running_by_priority, entry.job.priority);
  resources.GiveBack(entry.job.resources);
  if (const auto array = running_of_array.find(entry.job.array); array != running_of_array.end()) {
    array->second.erase(job);
    if (array->second.empty()) running_of_array.erase(array);
  }
}

void PlanningState::Release(JobIndex job) {
  EndRun(job);
  if (state.of(job).empty()) return;
  for (const MemberId id : state.of(job)) {
    if (!IsLeaving(state.member(id))) Refund(job, state.member(id).holding);
  }
  jobs[job].leaving.clear();
  Trial trial(state);
  trial.EvictJob(job);
  trial.Commit();
  ++freed;
}

void PlanningState::AddLeaving(JobIndex job, const std::vector<MemberAt>& places) {
  JobEntry& entry = jobs[job];
  entry.leaving.insert(entry.leaving.end(), places.begin(), places.end());
  moving.emplace(entry.sequence, job);
}

void PlanningState::DropLeaving(JobIndex job) {
  JobEntry& entry = jobs[job];
  Trial trial(state);
  for (const MemberAt& old : entry.leaving) {
    for (const MemberId id : state.of(job)) {
      const Member& member = state.member(id);
      if (MemberAt{member.role, member.rank, member.holding} != old) continue;
      trial.Evict(id);
      break;
    }
  }
  trial.Commit();
  entry.leaving.clear();
  moving.erase({entry.sequence, job});
  ++freed;
}

void PlanningState::HandOver(JobIndex job, JobIndex to) {
  Trial trial(state);
  for (const MemberAt& at : MembersOf(job)) {
    for (const MemberId id : state.of(job)) {
      const Member& member = state.member(id);
      if (MemberAt{member.role, member.rank, member.holding} != at) continue;
      trial.Evict(id);
      break;
    }
    Refund(job, at.holding);
    trial.Assign({.job = to, .role = at.role, .rank = at.rank, .holding = at.holding});
    Charge(to, at.holding);
  }
  trial.Commit();
  jobs[to].moved = jobs[job].moved;
  Run(to, now);
}

JobIndex PlanningState::Replace(JobIndex job, Job replacement) {
  const std::vector<MemberAt> members = MembersOf(job);
  const JobEntry before = jobs[job];
  assert(before.leaving.empty());
  Leave(job);
  const JobIndex to = Add(std::move(replacement));
  Trial trial(state);
  for (const MemberAt& at : members) {
    trial.Assign({.job = to, .role = at.role, .rank = at.rank, .holding = at.holding});
    Charge(to, at.holding);
  }
  trial.Commit();
  JobEntry& entry = jobs[to];
  entry.lost_members = before.lost_members;
  Run(to, before.started);
  entry.backfilled = before.backfilled;
  entry.checkpointed = before.checkpointed;
  entry.idle_since = before.idle_since;
  entry.moved = before.moved;
  entry.done = before.done;
  entry.restarts = before.restarts;
  return to;
}

void PlanningState::TakeBackMove(JobIndex job) {
  JobEntry& entry = jobs[job];
  if (entry.leaving.empty()) return;
  Trial trial(state);
  for (const MemberAt& at : MembersOf(job)) {
    for (const MemberId id : state.of(job)) {
      const Member& member = state.member(id);
      if (MemberAt{member.role, member.rank, member.holding} != at) continue;
      const bool stays = std::ranges::none_of(
          entry.leaving, [&](const MemberAt& old) { return old.role == at.role && old.rank == at.rank; });
      if (stays) break;
      trial.Evict(id);
      Refund(job, at.holding);
      break;
    }
  }
  trial.Commit();
  for (const MemberAt& old : entry.leaving) Charge(job, old.holding);
  entry.leaving.clear();
  moving.erase({entry.sequence, job});
  ++freed;
}

uint32_t PlanningState::MovesLeft() const {
  const auto recent =
      std::ranges::count_if(moves, [&](conf::TimePoint at) { return at + std::chrono::hours(1) > now; });
  return policy.moves.per_hour - std::min(policy.moves.per_hour, static_cast<uint32_t>(recent));
}

void PlanningState::FailMembersOn(NodeId node, uint32_t devices) {
  std::vector<std::pair<uint64_t, MemberId>> lost;
  for (const MemberId id : state.on(node)) {
    const Member& member = state.member(id);
    const bool hit = devices == UINT32_MAX || (member.holding.devices & devices) != 0;
    if (hit) lost.emplace_back(jobs[member.job].sequence, id);
  }
  std::ranges::sort(lost);
  for (const auto& [sequence, id] : lost) {
    const JobIndex job = state.member(id).job;
    JobEntry& entry = jobs[job];
    if (IsLeaving(state.member(id))) {  // the member stands at its new place, too
      std::erase(entry.leaving,
                 MemberAt{state.member(id).role, state.member(id).rank, state.member(id).holding});
      if (entry.leaving.empty()) moving.erase({entry.sequence, job});
    } else {
      if (entry.phase == Phase::kRunning && !entry.lost_members) {
        KeepWork(entry);
        ++entry.restarts;
      }
      entry.lost_members = true;
      broken.emplace(entry.sequence, job);
      Refund(job, state.member(id).holding);
    }
    Trial trial(state);
    trial.Evict(id);
    trial.Commit();
  }
  if (!lost.empty()) ++freed;
}

void PlanningState::BreakDevice(NodeId node, int device) {
  const auto broken = broken_devices.find(node);
  const uint32_t before = broken == broken_devices.end() ? 0 : broken->second;
  SetBrokenDevices(node, before | uint32_t{1} << device);
}

void PlanningState::SetBrokenDevices(NodeId node, uint32_t devices) {
  const auto broken = broken_devices.find(node);
  const uint32_t before = broken == broken_devices.end() ? 0 : broken->second;
  if (before == devices) return;
  for (int d = 0; d < kMaxDevices; ++d) {
    if (((before ^ devices) >> d & 1) != 0) state.SetDeviceHealth(node, d, (before >> d & 1) != 0);
  }
  if (devices == 0) {
    broken_devices.erase(broken);
  } else {
    broken_devices[node] = devices;
  }
  UpdateCapacity();
  ++changed;
  if ((before & ~devices) != 0) ++freed;
}

void PlanningState::SetEmptied(NodeId node, uint32_t devices) {
  if (devices == 0) {
    emptied_devices.erase(node);
  } else {
    emptied_devices[node] = devices;
  }
}

void PlanningState::SetOthers(NodeId node, HostAmounts amounts) {
  const HostAmounts before = state.others(node);
  state.SetOthers(node, amounts);
  const HostAmounts after = state.others(node);
  if (after == before) return;
  ++changed;
  if (after.cpu_milli < before.cpu_milli || after.memory_mib < before.memory_mib) ++freed;
}

void PlanningState::Mend(NodeId node) {
  faults.erase(node);
  SetBrokenDevices(node, 0);
}

void PlanningState::RecoverNodes() {
  for (const auto& [node, times] : faults) {
    if (state.health(node) == Health::kSuspect && times.back() + policy.faults.recover_after <= now) {
      SetHealth(node, Health::kHealthy);
    }
  }
}

void PlanningState::AdvanceTo(conf::TimePoint time) {
  now = time;
  queues.AdvanceTo(time);
}

void PlanningState::Leave(JobIndex job) {
  const JobEntry& entry = jobs[job];
  std::erase_if(reservations, [&](const Reservation& r) { return r.job == job; });
  if (line_stopped_by == job) line_stopped_by = kNone;
  Release(job);
  if (entry.phase == Phase::kPending && held.erase({entry.sequence, job}) == 0) pending.Remove(entry);
  suspended.erase({entry.sequence, job});
  queues.Withdraw(accounts[job].account, accounts[job].wanted);
  jobs.Erase(job);
}

void PlanningState::KeepWork(JobEntry& entry) const {
  const conf::Duration restart =
      entry.done > conf::Duration::zero() ? entry.job.checkpoint.restart : conf::Duration();
  entry.done += std::max(entry.checkpointed - entry.started - restart, conf::Duration::zero());
}

void PlanningState::UpdateCapacity() {
  const Cluster& cluster = state.cluster();
  std::vector<int64_t> by_kind(cluster.kinds.size(), 0);
  for (NodeId n = 0; n < cluster.nodes.size(); ++n) {
    if (state.health(n) != Health::kHealthy) continue;
    const NodeState& node = state.node(n);
    for (size_t d = 0; d < node.devices; ++d) {
      if (node.device[d].healthy) by_kind[cluster.type_of(n).kind] += kWholeDevice;
    }
  }
  queues.SetCapacity(by_kind);
}

void PlanningState::SetHealth(NodeId node, Health health) {
  if (state.health(node) == health) return;
  state.SetHealth(node, health);
  UpdateCapacity();
  ++changed;
  ++freed;
}

void PlanningState::Fault(NodeId node, conf::TimePoint at) {
  std::vector<conf::TimePoint>& times = faults[node];
  times.push_back(at);
  std::erase_if(times, [&](conf::TimePoint t) { return t + policy.faults.window < at; });
  if (times.size() >= policy.faults.quarantine_after) {
    SetHealth(node, Health::kQuarantined);
  } else if (times.size() >= policy.faults.suspect_after && state.health(node) == Health::kHealthy) {
    SetHealth(node, Health::kSuspect);
  }
}

}  // namespace scheduler
