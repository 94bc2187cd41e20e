// The part of a cycle that changes what runs already: gangs that a fault broke, elastic ones that may grow,
// members on nodes that drain, and nodes that are better emptied.
#include <fmt/format.h>

#include <algorithm>
#include <tuple>
#include <utility>

#include "scheduler/cycle/cycle.h"
#include "scheduler/cycle/defrag.h"

namespace scheduler {
namespace {

// What can be moved is what others could replace or what resumes from a checkpoint.
bool IsMovable(const JobEntry& entry) {
  return entry.phase == Phase::kRunning && entry.job.preemptible && entry.leaving.empty() &&
         !entry.lost_members &&
         (entry.job.work == WorkClass::kInference || entry.job.checkpoint.interval > conf::Duration::zero());
}

}  // namespace

// A gang that lost members to a fault gets others in their place, or waits again as a whole.
void Cycle::RepairGangs() {
  std::vector<JobIndex> broken;
  for (const auto& [sequence, job] : s_.running) {
    const JobEntry& entry = s_.jobs[job];
    if (entry.phase == Phase::kRunning && entry.lost_members) broken.push_back(job);
  }
  for (const JobIndex job : broken) {
    JobEntry& entry = s_.jobs[job];
    entry.lost_members = false;
    if (entry.restarts > entry.job.restart_budget) {
      s_.failed_for_good.push_back(entry.job.id);
      Stop(job, ActionKind::kStop, AfterStop::kLeaves, conf::Duration::zero(),
           {"restarts-used-up",
            fmt::format("a fault took members, and its {} restarts are used up", entry.job.restart_budget)});
      continue;
    }
    if (!s_.policy.faults.hot_swap || entry.members == 1) {
      Stop(job, ActionKind::kPreempt, AfterStop::kWaits, conf::Duration::zero(),
           {"node-failed", "a fault took members; it starts again from its last checkpoint"});
      continue;
    }
    std::vector<MemberAt> placed = PlaceMembers(job, KeepOffRooms(entry));
    if (s_.state.of(job).size() < MinMembers(entry.job)) {
      Stop(job, ActionKind::kPreempt, AfterStop::kWaits, conf::Duration::zero(),
           {"node-failed", "lost members to a fault, and there is no room to replace them"});
      continue;
    }
    entry.started = now_;
    entry.checkpointed = now_;
    if (placed.empty()) continue;
    const size_t count = placed.size();
    Start(job, std::move(placed),
          {"hot-swapped", fmt::format("{} members replace those that a fault took; the others stay", count)});
  }
}

// Elastic jobs take what nobody who waits could use.
void Cycle::GrowElastic() {
  if (!reservations_.empty()) return;
  std::vector<JobIndex> short_of_members;
  for (const auto& [sequence, job] : s_.running) {
    const JobEntry& entry = s_.jobs[job];
    if (entry.phase == Phase::kRunning && entry.leaving.empty() && s_.state.of(job).size() < entry.members) {
      short_of_members.push_back(job);
    }
  }
  for (const JobIndex job : short_of_members) {
    const JobEntry& entry = s_.jobs[job];
    std::vector<MemberAt> placed = PlaceMembers(job, s_.ZoneKeptOff(entry));
    if (placed.empty()) continue;
    const size_t count = placed.size();
    Start(job, std::move(placed),
          {"grown", fmt::format("{} more members: nobody else waits for the room", count)});
  }
}

// Members on nodes that drain start elsewhere first, then stop: what can be moved is what others could
// replace.
void Cycle::LeaveDrainingNodes() {
  std::vector<JobIndex> leaving;
  for (const auto& [sequence, job] : s_.running) {
    const JobEntry& entry = s_.jobs[job];
    if (!IsMovable(entry)) continue;
    const auto drains = [&](MemberId id) {
      return s_.state.health(s_.state.member(id).holding.node) == Health::kDraining;
    };
    if (std::ranges::any_of(s_.state.of(job), drains)) leaving.push_back(job);
  }
  for (const JobIndex job : leaving) MoveOff(job);
}

void Cycle::MoveOff(JobIndex job) {
  JobEntry& entry = s_.jobs[job];
  std::vector<MemberId> old;
  for (const MemberId id : s_.state.of(job)) {
    if (s_.state.health(s_.state.member(id).holding.node) == Health::kDraining) old.push_back(id);
  }
  std::ranges::sort(
      old, {}, [&](MemberId id) { return std::tuple(s_.state.member(id).role, s_.state.member(id).rank); });
  // Out of the way, so that the gang is short of just these; then back, to be held until the move is done.
  const Trial::Mark mark = trial_.mark();
  std::vector<Member> moved;
  for (const MemberId id : old) {
    moved.push_back(s_.state.member(id));
    trial_.Evict(id);
  }
  Rng draws = rng_;
  GangResult placed = s_.gangs.Place(trial_, s_.PlacerFor(entry), job, entry, KeepOffRooms(entry), draws);
  if (placed.placed.size() != moved.size()) return trial_.Rollback(mark);
  rng_ = draws;
  for (const Member& member : moved) {
    trial_.Assign(member);
    entry.leaving.push_back({member.role, member.rank, member.holding});
    s_.Refund(job, member.holding);
  }
  for (const MemberAt& member : placed.placed) s_.Charge(job, member.holding);
  releases_known_ = false;
  plan_.actions.push_back(
      {.kind = ActionKind::kMove,
       .job = entry.job.id,
       .members = std::move(placed.placed),
       .grace = GraceOf(entry),
       .why = {"draining", fmt::format("{} members stand on nodes that drain", moved.size())}});
}

// Where a gang stands was chosen for its topology: only members that stand alone are moved.
void Cycle::DefragmentNodes() {
  const DefragmentPolicy& policy = s_.policy.defragment;
  if (!policy.enabled || now_ < s_.defragmented + policy.every) return;
  s_.defragmented = now_;
  const auto movable = [&](const Member& member) {
    const JobEntry& entry = s_.jobs[member.job];
    return IsMovable(entry) && entry.started < now_ &&
           (entry.members == 1 || entry.job.work == WorkClass::kInference);
  };
  Defragmenter defragmenter(
      s_.jobs, policy, movable, [&](JobIndex job) -> Placer& { return s_.PlacerFor(s_.jobs[job]); },
      [&](JobIndex job) { return KeepOffRooms(s_.jobs[job]); });
  for (Relocation& move : defragmenter.Round(trial_, rng_)) {
    JobEntry& entry = s_.jobs[move.job];
    s_.Refund(move.job, move.from.holding);
    s_.Charge(move.job, move.to);
    entry.leaving.push_back({move.from.role, move.from.rank, move.from.holding});
    plan_.actions.push_back(
        {.kind = ActionKind::kMove,
         .job = entry.job.id,
         .members = {{move.from.role, move.from.rank, move.to}},
         .grace = GraceOf(entry),
         .why = {"defragmented", fmt::format("node {} becomes free for whole-node work",
                                             s_.state.cluster().nodes[move.from.holding.node].name)}});
  }
}

}  // namespace scheduler
