// The part of a cycle that makes room for one job by stopping others: by priority, or to reclaim what its
// queue deserves.
//
// Victims hold their devices until their grace is over; the job then starts on what is reserved for it. What
// others have been told to leave already is waited for, not asked for twice; queues are judged as they will
// stand when all of that is over, or each job of a queue would take for itself what is due to them together.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "scheduler/cycle/cycle.h"
#include "scheduler/cycle/preempt.h"

namespace scheduler {

bool Cycle::MayPreempt(JobIndex job) const {
  if (!s_.policy.preemption.by_priority) return false;
  const auto lowest = s_.running_by_priority.begin();
  return lowest != s_.running_by_priority.end() && lowest->first < s_.jobs[job].job.priority;
}

bool Cycle::MayReclaim(JobIndex job) const {
  if (!s_.policy.preemption.reclaim) return false;
  const JobAccount& account = s_.accounts[job];
  const Standing standing = s_.queues.standing(s_.queues.queue_of(account.account), account.ranked_by);
  return standing.allocated < standing.deserved;
}

bool Cycle::IsEntitled(JobIndex job) const {
  const JobAccount& account = s_.accounts[job];
  const Standing standing = s_.queues.standing(s_.queues.queue_of(account.account), account.ranked_by);
  int64_t more = 0;
  for (const Amount& amount : account.minimum) more += amount.milli;
  return standing.allocated + more <= standing.deserved;
}

// What stops is charged until it has stopped.
void Cycle::ChargeStopping() {
  for (const auto& [sequence, job] : s_.running) {
    if (s_.jobs[job].phase != Phase::kStopping) continue;
    for (const MemberId id : s_.state.of(job)) {
      if (!s_.IsLeaving(s_.state.member(id))) s_.Charge(job, s_.state.member(id).holding);
    }
  }
}

void Cycle::RefundStopping() {
  for (const auto& [sequence, job] : s_.running) {
    if (s_.jobs[job].phase != Phase::kStopping) continue;
    for (const MemberId id : s_.state.of(job)) {
      if (!s_.IsLeaving(s_.state.member(id))) s_.Refund(job, s_.state.member(id).holding);
    }
  }
}

// The old places of members that move or were told to go, out of the trial.
void Cycle::EvictLeaving(JobIndex job) {
  for (const MemberAt& old : s_.jobs[job].leaving) {
    const auto members = s_.state.of(job);
    const auto at = std::ranges::find_if(members, [&](MemberId id) {
      const Member& member = s_.state.member(id);
      return MemberAt{member.role, member.rank, member.holding} == old;
    });
    trial_.Evict(*at);
  }
}

void Cycle::EvictWhatLeaves() {
  for (const auto& [sequence, job] : s_.running) {
    if (s_.jobs[job].phase == Phase::kStopping) {
      trial_.EvictJob(job);
    } else {
      EvictLeaving(job);
    }
  }
}

bool Cycle::TryPreempt(JobIndex job) {
  const bool by_priority = MayPreempt(job);
  const bool reclaims = MayReclaim(job);
  if (!by_priority && !reclaims) return false;

  const JobEntry& entry = s_.jobs[job];
  const conf::TimePoint end = now_ + s_.ExpectedRun(job);
  const auto place = [&](Trial& trial) {
    Rng unused = OwnRng(entry.job);
    return !s_.gangs.Place(trial, s_.PlacerFor(entry), job, entry, KeepOffToPreempt(entry, now_, end), unused)
                .placed.empty();
  };
  const Trial::Mark mark = trial_.mark();
  RefundStopping();
  EvictWhatLeaves();
  for (const Reservation& room : rooms_) AssignRoom(room);
  const Trial::Mark left = trial_.mark();
  const bool room_comes =
      place(trial_) && s_.queues.Admit(s_.accounts[job].account, s_.accounts[job].minimum).admitted();
  const bool waits_for_it = room_comes && (by_priority || IsEntitled(job));
  std::vector<Victim> victims;
  bool reclaimed = false;
  Rng draws = rng_;
  if (!room_comes) {
    trial_.Rollback(left);
    const Preemption where{.trial = trial_,
                           .jobs = s_.jobs,
                           .shapes = s_.shapes,
                           .tree = s_.queues,
                           .policy = s_.policy.preemption,
                           .now = now_};
    if (by_priority) victims = FindVictims(where, job, PreemptMode::kPriority, place, draws);
    if (victims.empty() && reclaims) {
      victims = FindVictims(where, job, PreemptMode::kReclaim, place, draws);
      reclaimed = true;
    }
  }
  const bool makes_room = waits_for_it || !victims.empty();
  std::vector<MemberAt> members = s_.MembersOf(job);
  // What stops goes on holding what it has for its grace.
  trial_.Rollback(mark);
  ChargeStopping();
  if (!makes_room) return false;
  rng_ = draws;
  for (Victim& victim : victims) StopVictim(job, victim, reclaimed);
  PromiseRoom(job, std::move(members));
  return true;
}

void Cycle::StopVictim(JobIndex preemptor, Victim& victim, bool reclaimed) {
  JobEntry& entry = s_.jobs[victim.job];
  Reason why{reclaimed ? "reclaimed" : "preempted",
             fmt::format("makes room for {}: {}", s_.jobs[preemptor].job.id, victim.why.text)};
  if (victim.whole) {
    // FindVictims refunded them; a job that stops is charged until it has.
    for (const MemberId id : s_.state.of(victim.job)) {
      if (!s_.IsLeaving(s_.state.member(id))) s_.Charge(victim.job, s_.state.member(id).holding);
    }
    return Stop(victim.job, ActionKind::kPreempt, AfterStop::kWaits, GraceOf(entry), std::move(why));
  }
  entry.leaving.insert(entry.leaving.end(), victim.members.begin(), victim.members.end());
  releases_known_ = false;
  plan_.actions.push_back({.kind = ActionKind::kShrink,
                           .job = entry.job.id,
                           .members = std::move(victim.members),
                           .grace = GraceOf(entry),
                           .why = std::move(why)});
}

}  // namespace scheduler
