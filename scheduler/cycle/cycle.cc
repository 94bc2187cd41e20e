#include "scheduler/cycle/cycle.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>
#include <utility>

#include "scheduler/queues/order.h"

namespace scheduler {
namespace {

constexpr size_t kMaxWaitingReasons = 1000;

uint32_t MaxReservations(const BackfillPolicy& policy) {
  switch (policy.kind) {
    case Backfill::kEasy:
      return 1;
    case Backfill::kConservative:
      return policy.depth;
    case Backfill::kFifo:
    case Backfill::kBestEffort:
      break;
  }
  return 0;
}

}  // namespace

Cycle::Cycle(PlanningState& state, conf::TimePoint now, Rng& rng)
    : s_(state),
      now_(now),
      rng_(rng),
      trial_(state.state),
      reservations_(state.state.cluster().nodes.size()),
      max_reservations_(MaxReservations(state.policy.backfill)),
      must_end_by_(state.jobs.signatures(), conf::TimePoint::max()),
      kept_off_(state.state.cluster().nodes.size()) {
  plan_.based_on = ++s_.version;
  for (const Reservation& reservation : state.reservations) {
    if (reservation.is_room()) {
      rooms_.push_back(reservation);
      continue;
    }
    last_.push_back(reservation);
    if (state.policy.backfill.kind == Backfill::kConservative) promises_.push_back(reservation);
    // What was to end by then may have ended before.
    if (reservation.start <= now + state.policy.preemption.grace) due_.push_back(reservation);
  }
}

Plan Cycle::Run() {
  EndWhatIsOver();
  ReleaseHeld();
  KeepRooms();
  RepairGangs();
  ReserveInAdvance();
  StartJobs();
  RefundRooms();
  GrowElastic();
  LeaveDrainingNodes();
  DefragmentNodes();
  trial_.Commit();
  for (const Reservation& r : reservations_.all()) {
    plan_.reserved.push_back({s_.jobs[r.job].job.id, r.start, r.end, r.nodes, r.members});
  }
  s_.reservations = reservations_.all();
  return std::move(plan_);
}

void Cycle::Waits(JobIndex job, Reason why) {
  if (plan_.waiting.size() < kMaxWaitingReasons)
    plan_.waiting.emplace_back(s_.jobs[job].job.id, std::move(why));
}

conf::Duration Cycle::GraceOf(const JobEntry& entry) const {
  return std::max(s_.policy.preemption.grace, entry.job.checkpoint.save);
}

void Cycle::Start(JobIndex job, std::vector<MemberAt> members, Reason why) {
  JobEntry& entry = s_.jobs[job];
  for (const MemberAt& member : members) s_.Charge(job, member.holding);
  if (entry.phase == Phase::kPending) {
    s_.pending.Remove(entry);
    s_.Run(job, now_);
  }
  releases_known_ = false;
  plan_.actions.push_back({.kind = ActionKind::kStart,
                           .job = entry.job.id,
                           .members = std::move(members),
                           .grace = {},
                           .why = std::move(why)});
}

void Cycle::Stop(JobIndex job, ActionKind kind, AfterStop after, conf::Duration grace, Reason why) {
  JobEntry& entry = s_.jobs[job];
  entry.phase = Phase::kStopping;
  entry.stops_at = now_ + grace;
  entry.after_stop = after;
  releases_known_ = false;
  plan_.actions.push_back(
      {.kind = kind, .job = entry.job.id, .members = {}, .grace = grace, .why = std::move(why)});
}

void Cycle::EndWhatIsOver() {
  StopDependents();
  for (const auto& [sequence, job] : s_.running) {
    const JobEntry& entry = s_.jobs[job];
    if (entry.phase != Phase::kRunning) continue;
    if (entry.job.limit && entry.started + *entry.job.limit <= now_) {
      Stop(
          job, ActionKind::kStop, AfterStop::kLeaves, GraceOf(entry),
          {"over-limit", fmt::format("has run for its limit of {}", conf::FormatDuration(*entry.job.limit))});
    } else if (entry.idle_since && entry.job.idle_timeout > conf::Duration::zero() &&
               *entry.idle_since + entry.job.idle_timeout <= now_) {
      Stop(
          job, ActionKind::kSuspend, AfterStop::kSuspends, GraceOf(entry),
          {"idle", fmt::format("nobody has used it for {}", conf::FormatDuration(now_ - *entry.idle_since))});
    }
  }
}

// What waits for a job that failed for good can never start.
void Cycle::StopDependents() {
  for (size_t i = 0; i < s_.failed_for_good.size(); ++i) {
    const std::string failed = s_.failed_for_good[i];
    std::vector<JobIndex> dependents;
    for (const auto& [sequence, job] : s_.held) {
      if (std::ranges::find(s_.jobs[job].job.after, failed) != s_.jobs[job].job.after.end())
        dependents.push_back(job);
    }
    for (const JobIndex job : dependents) {
      const std::string id = s_.jobs[job].job.id;
      plan_.actions.push_back(
          {.kind = ActionKind::kStop,
           .job = id,
           .members = {},
           .grace = {},
           .why = {"dependency-failed", fmt::format("job {}, which it waits for, failed", failed)}});
      s_.failed_for_good.push_back(id);
      s_.Leave(job);
    }
  }
  s_.failed_for_good.clear();
}

void Cycle::ReleaseHeld() {
  std::vector<JobIndex> free;
  for (const auto& [sequence, job] : s_.held) {
    const JobEntry& entry = s_.jobs[job];
    if (s_.MayStart(entry, now_)) free.push_back(job);
  }
  for (const JobIndex job : free) {
    s_.held.erase({s_.jobs[job].sequence, job});
    s_.Wait(job);
  }
}

// Jobs with a start of their own have their nodes kept from the day they are known.
void Cycle::ReserveInAdvance() {
  std::vector<std::pair<conf::TimePoint, uint64_t>> order;
  for (const auto& [sequence, job] : s_.held) {
    const JobEntry& entry = s_.jobs[job];
    if (entry.job.not_before && *entry.job.not_before > now_ && entry.job.after.empty()) {
      order.emplace_back(*entry.job.not_before, sequence);
    }
  }
  std::ranges::sort(order);
  for (const auto& [start, sequence] : order) {
    const JobIndex job = s_.held.lower_bound({sequence, 0})->second;
    ReserveFor(job, start, TakePromise(job));
  }
}

Cycle::Outcome Cycle::TryStart(JobIndex job) {
  const JobEntry& entry = s_.jobs[job];
  const JobAccount& account = s_.accounts[job];
  if (const Verdict verdict = s_.queues.Admit(account.account, account.minimum); !verdict.admitted()) {
    Waits(job, {"quota", s_.queues.Explain(verdict)});
    return Outcome::kQuota;
  }
  if (s_.no_room_since[entry.signature] == s_.freed || !s_.gangs.MightFit(entry)) return Outcome::kNoRoom;
  const conf::TimePoint end = now_ + s_.ExpectedRun(job);
  if (end > must_end_by_[entry.signature]) return Outcome::kOnlyShorter;

  const NodeSet* const keep_off = KeepOff(entry, now_, end);
  std::vector<MemberAt> placed = PlaceOnReserved(job, keep_off);
  if (placed.empty()) placed = PlaceMembers(job, keep_off);
  if (!placed.empty()) {
    const bool overtakes = !reservations_.empty();
    Start(job, std::move(placed),
          {overtakes ? "backfilled" : "fits",
           overtakes ? "fits beside what is reserved for those before it" : "there is room for it"});
    return Outcome::kStarted;
  }
  if (FitsAnywhere(job)) {
    if (keep_off == s_.ZoneKeptOff(entry)) {
      Waits(job, {"quota", "what it would be given exceeds its queue's bounds"});
      return Outcome::kQuota;
    }
    must_end_by_[entry.signature] = reservations_.LastStartBefore(end);
    return Outcome::kOnlyShorter;
  }
  s_.no_room_since[entry.signature] = s_.freed;
  return Outcome::kNoRoom;
}

std::optional<Place> Cycle::NextThatEndsBy(const PendingGroup& group, const Place& after,
                                           conf::TimePoint by) const {
  if (group.jobs.empty() || now_ + group.by_run.begin()->first > by) return std::nullopt;
  for (auto at = group.jobs.upper_bound(after); at != group.jobs.end(); ++at) {
    if (now_ + s_.ExpectedRun(at->second) <= by) return at->first;
  }
  return std::nullopt;
}

Cycle::Turn Cycle::TurnAt(GroupId group, const Place& place) const {
  const JobAccount& account = s_.accounts[s_.pending[group].jobs.at(place)];
  return {-place.first + s_.order.OfAccount(s_.queues, account.account, account.ranked_by), place, group};
}

bool Cycle::ArrayIsFull(const PendingGroup& group, JobIndex job) {
  const uint32_t most = s_.jobs[job].job.max_running;
  if (group.array.empty() || most == 0) return false;
  const auto running = s_.running_of_array.find(group.array);
  if (running == s_.running_of_array.end() || running->second.size() < most) return false;
  Waits(job, {"array", fmt::format("{} elements of its array run, as many as may", most)});
  return true;
}

void Cycle::StopTheLine(JobIndex job) {
  s_.line_stopped_by = job;
  Waits(job, {"first-in-line", "is the first that does not fit; nothing overtakes it"});
}

// The queue in order: groups take turns by the rank of their first job. A group whose first job does not fit
// steps aside, but for those of its jobs that end before they would be in a reservation's way.
void Cycle::StartJobs() {
  s_.queues.ComputeShares();
  s_.line_stopped_by = kNone;
  std::priority_queue<Turn> turns;
  for (GroupId g = 0; g < s_.pending.groups(); ++g) {
    const PendingGroup& group = s_.pending[g];
    if (!group.jobs.empty()) turns.push(TurnAt(g, group.jobs.begin()->first));
  }
  while (!turns.empty()) {
    const Turn turn = turns.top();
    turns.pop();
    // A start of its queue since may have put it further back.
    const Turn again = TurnAt(turn.group, turn.place);
    if (again.score < turn.score) {
      turns.push(again);
      continue;
    }
    const PendingGroup& group = s_.pending[turn.group];
    const JobIndex job = group.jobs.at(turn.place);
    if (HasRoomToCome(job)) {
      if (s_.policy.backfill.kind == Backfill::kFifo) return StopTheLine(job);
      if (const std::optional<Place> next = NextThatEndsBy(group, turn.place, conf::TimePoint::max()))
        turns.push(TurnAt(turn.group, *next));
      continue;
    }
    if (ArrayIsFull(group, job)) continue;

    const std::optional<Reservation> promise = TakePromise(job);
    const size_t made = reservations_.all().size();
    if (promise) {
      for (const Reservation& other : promises_) reservations_.Add(other);
    }
    const Outcome outcome = TryStart(job);
    reservations_.Truncate(made);
    conf::TimePoint by = conf::TimePoint::max();
    if (outcome == Outcome::kNoRoom && Impossible(job)) continue;
    if (outcome != Outcome::kStarted) {
      const bool tried = std::ranges::find(tried_to_preempt_, turn.group) != tried_to_preempt_.end();
      const bool makes_room = !tried && TryPreempt(job);
      if (!makes_room) {
        if (!tried) tried_to_preempt_.push_back(turn.group);
        if (outcome == Outcome::kQuota) continue;
      }
      if (s_.policy.backfill.kind == Backfill::kFifo) return StopTheLine(job);
      if (makes_room) {
        // It waits for that.
      } else if (promise || reserved_in_line_ < max_reservations_) {
        if (ReserveFor(job, now_, promise)) ++reserved_in_line_;
      } else if (outcome == Outcome::kNoRoom) {
        Waits(job, {"no-room", "too little is free for it"});
        continue;
      } else {
        Waits(job, {"behind", "what is free is reserved for those before it"});
        by = must_end_by_[group.signature];
      }
    }
    if (const std::optional<Place> next = NextThatEndsBy(group, turn.place, by))
      turns.push(TurnAt(turn.group, *next));
  }
}

}  // namespace scheduler
