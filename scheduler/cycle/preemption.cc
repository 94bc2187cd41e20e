#include "scheduler/cycle/preemption.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "scheduler/filler.h"

namespace scheduler {

bool Preemption::MayPreempt(JobIndex job) const {
  const auto lowest = s_.running_by_priority.begin();
  if (lowest == s_.running_by_priority.end() || lowest->first >= s_.jobs[job].job.priority) return false;
  return s_.policy.preemption.by_priority || lowest->first <= kFillerPriority;
}

bool Preemption::MayReclaim(JobIndex job) const {
  // Every job may stop a filler. If a filler stopped one, the two would stop each other without end.
  if (!s_.policy.preemption.reclaim || IsFiller(s_.jobs[job].job)) return false;
  const JobAccount& account = s_.accounts[job];
  // A job that asks for cores alone has no share of devices to claim. A job of higher priority would take back whatever
  // it reclaims, again and again.
  if (std::ranges::none_of(account.minimum, [](const Amount& amount) { return amount.milli > 0; }))
    return false;
  const Standing standing = s_.queues.standing(s_.queues.queue_of(account.account), account.ranked_by);
  return standing.allocated < standing.deserved;
}

bool Preemption::MayEvictOverrunning(JobIndex job) const {
  return s_.policy.backfill.evict_overrunning && book_.IsDue(job);
}

bool Preemption::Overruns(JobIndex job) const {
  const JobEntry& entry = s_.jobs[job];
  return entry.backfilled && entry.started + s_.ExpectedRun(job) <= draft_.now();
}

bool Preemption::StaysWithinDeserved(JobIndex job) const {
  const JobAccount& account = s_.accounts[job];
  const Standing standing = s_.queues.standing(s_.queues.queue_of(account.account), account.ranked_by);
  int64_t more = 0;
  for (const Amount& amount : account.minimum) more += amount.milli;
  return standing.allocated + more <= standing.deserved;
}

// A stopping job is charged until it has stopped, except for the old places of moved members.
void Preemption::ChargeHeld(JobIndex job) {
  for (const MemberId id : s_.state.of(job)) {
    if (!s_.IsLeaving(s_.state.member(id))) s_.Charge(job, s_.state.member(id).holding);
  }
}

void Preemption::ChargeStopping() {
  for (const auto& [sequence, job] : s_.running) {
    if (s_.jobs[job].phase == Phase::kStopping) ChargeHeld(job);
  }
}

void Preemption::RefundStopping() {
  for (const auto& [sequence, job] : s_.running) {
    if (s_.jobs[job].phase != Phase::kStopping) continue;
    for (const MemberId id : s_.state.of(job)) {
      if (!s_.IsLeaving(s_.state.member(id))) s_.Refund(job, s_.state.member(id).holding);
    }
  }
}

bool Preemption::TryFor(JobIndex job) {
  const bool by_priority = MayPreempt(job);
  const bool reclaims = MayReclaim(job);
  const bool evicts = MayEvictOverrunning(job);
  if (!by_priority && !reclaims && !evicts) return false;

  const JobEntry& entry = s_.jobs[job];
  Trial& trial = draft_.trial();
  const conf::TimePoint now = draft_.now();
  const conf::TimePoint end = now + s_.ExpectedRun(job);
  const auto place = [&](Trial& in) {
    Rng unused = OwnRng(entry.job);
    const NodeSet* const keep_off = book_.KeepOffToPreempt(entry, now, end);
    return !s_.gangs.Place(in, s_.PlacerFor(entry), job, entry, keep_off, unused).placed.empty();
  };
  const Trial::Mark mark = trial.mark();
  RefundStopping();
  draft_.EvictAllLeaving();
  book_.AssignNominations();
  const Trial::Mark left = trial.mark();
  std::vector<MemberAt> members;
  // Judged by what the job would hold: with alternatives and partitions, that may be more than its queue may have.
  const auto is_admitted = [&] {
    members = s_.MembersOf(job);
    return draft_.LeaveOutSurplus(job, members);
  };
  const bool room_comes = place(trial) && is_admitted();
  const bool waits_for_it = room_comes && (by_priority || evicts || StaysWithinDeserved(job));
  std::vector<Victim> victims;
  Rng draws = draft_.rng();
  if (!room_comes) {
    trial.Rollback(left);
    const VictimSearchInput input{.trial = trial,
                                  .jobs = s_.jobs,
                                  .shapes = s_.shapes,
                                  .tree = s_.queues,
                                  .policy = s_.policy.preemption,
                                  .now = now,
                                  .among = [&](JobIndex other) { return Overruns(other); },
                                  .begins = [&](JobIndex other) { return draft_.Begins(other); }};
    for (const auto& [allowed, by] :
         {std::pair(evicts, PreemptMode::kOverrun), std::pair(by_priority, PreemptMode::kPriority),
          std::pair(reclaims, PreemptMode::kReclaim)}) {
      if (!allowed || !victims.empty()) continue;
      victims = FindVictims(input, job, by, place, draws);
      if (victims.empty() || is_admitted()) continue;
      for (const Victim& victim : victims) ChargeBack(victim);
      victims.clear();
      trial.Rollback(left);
    }
  }
  const bool makes_room = waits_for_it || !victims.empty();
  // Stopping jobs hold their devices until the end of their grace.
  trial.Rollback(mark);
  ChargeStopping();
  if (!makes_room) return false;
  draft_.rng() = draws;
  const size_t taken_back = draft_.taken_back();
  for (const Victim& victim : victims) StopVictim(job, victim);
  const bool may_be_free = victims.empty() || draft_.taken_back() > taken_back;
  const bool starts = may_be_free && book_.StartOn(job, members);
  if (!starts) book_.Nominate(job, std::move(members));
  return true;
}

// The search refunded it.
void Preemption::ChargeBack(const Victim& victim) {
  for (const MemberAt& member : victim.members) s_.Charge(victim.job, member.holding);
}

void Preemption::StopVictim(JobIndex preemptor, const Victim& victim) {
  Reason why{victim.why.code,
             fmt::format("makes room for {}: {}", s_.jobs[preemptor].job.id, victim.why.text)};
  ChargeBack(victim);
  victim.whole ? draft_.Preempt(victim.job, std::move(why))
               : draft_.Shrink(victim.job, victim.members, std::move(why));
}

}  // namespace scheduler
