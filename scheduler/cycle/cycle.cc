#include "scheduler/cycle/cycle.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <queue>
#include <string>
#include <utility>
#include <vector>

#include "conf/shown.h"
#include "scheduler/cycle/moves.h"
#include "scheduler/cycle/plan_draft.h"
#include "scheduler/cycle/preemption.h"
#include "scheduler/cycle/reservation_book.h"
#include "scheduler/cycle/resource_line.h"
#include "scheduler/cycle/running_jobs.h"

namespace scheduler {
namespace {

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

// A job that waits for a job that failed for good can never start.
void AbandonDependents(PlanDraft& draft) {
  PlanningState& s = draft.state();
  for (size_t i = 0; i < s.failed_for_good.size(); ++i) {
    const std::string failed = s.failed_for_good[i];
    std::vector<JobIndex> dependents;
    for (const auto& [sequence, job] : s.held) {
      const std::vector<std::string>& after = s.jobs[job].job.after;
      if (std::ranges::find(after, failed) != after.end()) dependents.push_back(job);
    }
    for (const JobIndex job : dependents) {
      s.failed_for_good.push_back(s.jobs[job].job.id);
      draft.Abandon(job, {"dependency-failed", fmt::format("job {}, which it waits for, failed", failed)});
    }
  }
  s.failed_for_good.clear();
}

// Jobs whose time has come, or whose dependencies have ended, join the queue.
void ReleaseHeld(PlanDraft& draft) {
  PlanningState& s = draft.state();
  std::vector<JobIndex> free;
  for (const auto& [sequence, job] : s.held) {
    if (s.MayStart(s.jobs[job], draft.now())) free.push_back(job);
  }
  for (const JobIndex job : free) {
    s.held.erase({s.jobs[job].sequence, job});
    s.Wait(job);
  }
}

// A job with a start time of its own has nodes reserved as soon as it is known.
void ReserveInAdvance(PlanDraft& draft, ReservationBook& book) {
  PlanningState& s = draft.state();
  std::vector<std::pair<conf::TimePoint, uint64_t>> order;
  for (const auto& [sequence, job] : s.held) {
    const JobEntry& entry = s.jobs[job];
    if (entry.job.not_before && *entry.job.not_before > draft.now() && entry.job.after.empty()) {
      order.emplace_back(*entry.job.not_before, sequence);
    }
  }
  std::ranges::sort(order);
  for (const auto& [start, sequence] : order) {
    const JobIndex job = s.held.lower_bound({sequence, 0})->second;
    book.Reserve(job, start, book.TakePromise(job));
  }
}

// The queue in order: groups take turns by the rank of their first job. A group whose first job does not fit steps
// aside, except for its jobs that end before a reservation needs their nodes.
class QueueWalk {
 public:
  QueueWalk(PlanDraft& draft, ReservationBook& book, Moves& moves)
      : draft_(draft),
        s_(draft.state()),
        now_(draft.now()),
        book_(book),
        resources_(draft, book),
        preemption_(draft, book),
        moves_(moves),
        max_reservations_(MaxReservations(s_.policy.backfill)),
        must_end_by_(s_.jobs.signatures(), conf::TimePoint::max()),
        cannot_preempt_(s_.pending.groups(), false) {}

  void Run();

 private:
  enum class Outcome : uint8_t { kStarted, kNoRoom, kOnlyShorter, kQuota, kNoResource };

  // A group's first job that may still start, among all groups'.
  struct Turn {
    double score = 0;
    Place place;
    GroupId group = 0;
    JobIndex job = kNone;
    bool operator<(const Turn& other) const {  // of a heap: the greatest goes first
      return score != other.score ? score < other.score : place.second > other.place.second;
    }
  };

  Turn TurnOf(GroupId group, const Place& place, JobIndex job) const;
  // The turn of the group's next job that ends by then, if there is one.
  void PassOn(const Turn& turn, conf::TimePoint by);
  bool ArrayIsFull(const PendingGroup& group, JobIndex job);
  void StopTheLine(JobIndex job);
  Outcome TryStart(JobIndex job, const std::optional<Reservation>& promise);

  PlanDraft& draft_;
  PlanningState& s_;
  conf::TimePoint now_;
  ReservationBook& book_;
  ResourceLine resources_;
  Preemption preemption_;
  Moves& moves_;
  uint32_t max_reservations_;
  uint32_t reserved_in_line_ = 0;             // for the queue, beside advance reservations and nominations
  std::vector<conf::TimePoint> must_end_by_;  // by signature: later ends would be in a reservation's way
  std::vector<bool> cannot_preempt_;          // by group: tried this cycle, without success
  std::priority_queue<Turn> turns_;
  conf::TimePoint resource_by_{};  // of the last kNoResource: jobs that ask alike and end by then may start
};

QueueWalk::Outcome QueueWalk::TryStart(JobIndex job, const std::optional<Reservation>& promise) {
  const JobEntry& entry = s_.jobs[job];
  const JobAccount& account = s_.accounts[job];
  const QuotaVerdict verdict = s_.queues.Admit(account.account, account.minimum);
  if (!verdict.admitted()) {
    draft_.Waits(job, {"quota", s_.queues.Explain(verdict)});
    return Outcome::kQuota;
  }
  if (std::optional<ResourceLine::Refusal> lacks = resources_.WhyNot(job)) {
    draft_.Waits(job, std::move(lacks->why));
    resource_by_ = lacks->may_end_by;
    return Outcome::kNoResource;
  }
  if (s_.no_room_since[entry.signature] == s_.freed || !s_.gangs.MightFit(entry)) return Outcome::kNoRoom;
  const conf::TimePoint end = now_ + s_.ExpectedRun(job);
  // The reservation that stopped an equal job may be this job's own promise.
  if (!promise && end > must_end_by_[entry.signature]) return Outcome::kOnlyShorter;

  const NodeSet* const keep_off = book_.KeepOff(entry, now_, end);
  std::vector<MemberAt> placed = book_.PlaceOnReserved(job, keep_off);
  const bool has_its_turn = !placed.empty();
  if (placed.empty()) placed = draft_.PlaceMembers(job, keep_off);
  if (!placed.empty()) {
    const bool overtakes = !book_.empty();
    draft_.Start(job, std::move(placed),
                 {overtakes ? "backfilled" : "fits",
                  overtakes ? "fits beside the nodes that are reserved for jobs ahead of it"
                            : "there is room for it"});
    s_.jobs[job].backfilled = overtakes && !has_its_turn;
    resources_.Started(job);
    return Outcome::kStarted;
  }
  if (draft_.FitsUnreserved(job)) {
    if (keep_off == s_.ZoneKeptOff(entry)) {
      draft_.Waits(job, {"quota", "the devices that it would get exceed the bounds of its queue"});
      return Outcome::kQuota;
    }
    must_end_by_[entry.signature] = book_.LastStartBefore(end);
    return Outcome::kOnlyShorter;
  }
  s_.no_room_since[entry.signature] = s_.freed;
  return Outcome::kNoRoom;
}

void QueueWalk::PassOn(const Turn& turn, conf::TimePoint by) {
  const PendingGroup& group = s_.pending[turn.group];
  if (group.jobs.empty() || now_ + group.by_run.begin()->first > by) return;
  for (auto at = group.jobs.upper_bound(turn.place); at != group.jobs.end(); ++at) {
    if (now_ + at->second.run <= by) return turns_.push(TurnOf(turn.group, at->first, at->second.job));
  }
}

QueueWalk::Turn QueueWalk::TurnOf(GroupId group, const Place& place, JobIndex job) const {
  return {-place.first + s_.CommonScore(group, job) + s_.order.OfWait(s_.jobs[job], now_), place, group, job};
}

bool QueueWalk::ArrayIsFull(const PendingGroup& group, JobIndex job) {
  const uint32_t most = s_.jobs[job].job.max_running;
  if (group.array.empty() || most == 0) return false;
  const auto running = s_.running_of_array.find(group.array);
  if (running == s_.running_of_array.end() || running->second.size() < most) return false;
  draft_.Waits(job, {"array", fmt::format("{} of its array {}, which is the most allowed",
                                          conf::Counted(most, "element"), most == 1 ? "runs" : "run")});
  return true;
}

void QueueWalk::StopTheLine(JobIndex job) {
  s_.line_stopped_by = job;
  draft_.Waits(job,
               {"first-in-line", "is the first job in line that does not fit; no other job overtakes it"});
}

void QueueWalk::Run() {
  s_.queues.ComputeShares();
  s_.line_stopped_by = kNone;
  std::vector<Turn> first;
  first.reserve(s_.pending.occupied().size());
  for (const GroupId group : s_.pending.occupied()) {
    const auto& [place, job] = *s_.pending[group].jobs.begin();
    first.push_back(TurnOf(group, place, job.job));
  }
  turns_ = std::priority_queue<Turn>({}, std::move(first));
  while (!turns_.empty()) {
    const Turn turn = turns_.top();
    turns_.pop();
    // A start in its queue may have lowered its rank since.
    const Turn again = TurnOf(turn.group, turn.place, turn.job);
    if (again.score < turn.score) {
      turns_.push(again);
      continue;
    }
    const PendingGroup& group = s_.pending[turn.group];
    const JobIndex job = turn.job;
    if (book_.IsNominated(job)) {
      if (s_.policy.backfill.kind == Backfill::kFifo) return StopTheLine(job);
      PassOn(turn, conf::TimePoint::max());
      continue;
    }
    if (ArrayIsFull(group, job)) continue;

    const std::optional<Reservation> promise = book_.TakePromise(job);
    const size_t made = promise ? book_.AddPromises() : book_.all().size();
    const Outcome outcome = TryStart(job, promise);
    book_.Truncate(made);
    conf::TimePoint by = conf::TimePoint::max();
    if (outcome == Outcome::kNoRoom && draft_.IsImpossible(job)) continue;
    if (outcome == Outcome::kNoResource) {
      // No devices are reserved for it: they would be idle until the resource is free.
      if (s_.policy.backfill.kind == Backfill::kFifo) return StopTheLine(job);
      PassOn(turn, resource_by_);
      continue;
    }
    if (outcome != Outcome::kStarted) {
      // Room for a job that lacks a resource would be idle. Other refusals come after that check.
      const bool lacks_resource = outcome == Outcome::kQuota && !resources_.MayHave(job);
      const bool tried = cannot_preempt_[turn.group];
      const bool makes_room =
          !tried && !lacks_resource &&
          (preemption_.TryFor(job) || (outcome == Outcome::kNoRoom && moves_.TryFor(job)));
      if (!makes_room) {
        cannot_preempt_[turn.group] = true;
        if (outcome == Outcome::kQuota) continue;
      }
      if (s_.jobs[job].phase == Phase::kRunning) {
        resources_.Started(job);
        PassOn(turn, by);
        continue;
      }
      if (s_.policy.backfill.kind == Backfill::kFifo) return StopTheLine(job);
      if (makes_room) {
        // It waits for that.
      } else if (!s_.jobs[job].job.pinned.empty()) {
        // The holder of its devices has no expected end: a reservation would keep other work off for nothing.
        draft_.Waits(job, {"pinned", "the devices on which its processes wait are in use"});
        continue;
      } else if (promise || reserved_in_line_ < max_reservations_) {
        if (book_.Reserve(job, now_, promise)) {
          ++reserved_in_line_;
          resources_.Reserved(job, book_.all().back().start);
        }
      } else if (outcome == Outcome::kNoRoom) {
        draft_.Waits(job, {"no-room", "not enough devices, cores or memory are free"});
        continue;
      } else {
        draft_.Waits(job, {"behind", "the free nodes are reserved for jobs ahead of it"});
        by = must_end_by_[group.signature];
      }
    }
    PassOn(turn, by);
  }
}

}  // namespace

Plan RunCycle(PlanningState& state, conf::TimePoint now, Rng& rng) {
  PlanDraft draft(state, now, rng);
  ReservationBook book(draft);
  AbandonDependents(draft);
  StopOverdueJobs(draft);
  ReleaseHeld(draft);
  book.KeepNominations();
  RepairGangs(draft, book);
  ReserveInAdvance(draft, book);
  Moves moves(draft, book);
  QueueWalk(draft, book, moves).Run();
  book.RefundNominations();
  GrowElasticJobs(draft, book);
  LeaveDrainingNodes(draft, book);
  moves.EmptyFaultyDevices();
  moves.BringTogether();
  Defragment(draft, book, moves);
  return draft.Finish(book.all());
}

}  // namespace scheduler
