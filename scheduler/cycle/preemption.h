// Makes room for one job by stopping others: by priority, to reclaim what the job's queue deserves, or backfilled
// jobs that have outlived their estimates when the job's reservation begins.
//
// Victims hold their devices until their grace is over; the job is nominated for their places and then starts there. A
// victim that this same plan starts is not started; where there are no other victims, the job starts at once. The job
// waits for room that other jobs already leave, and does not request it twice. Queues are judged as they will be when
// all stopping jobs have stopped; otherwise each job of a queue would take what is due to all of them together. Inside
// the planner only; lives for one cycle.
#pragma once

#include "scheduler/cycle/plan_draft.h"
#include "scheduler/cycle/reservation_book.h"
#include "scheduler/cycle/victim_search.h"

namespace scheduler {

class Preemption {
 public:
  Preemption(PlanDraft& draft, ReservationBook& book) : draft_(draft), s_(draft.state()), book_(book) {}

  // Whether the job will get room from jobs that are being stopped, now or since earlier cycles, or has started.
  bool TryFor(JobIndex job);

 private:
  bool MayPreempt(JobIndex job) const;           // by priority
  bool MayReclaim(JobIndex job) const;           // its queue is below its deserved share
  bool MayEvictOverrunning(JobIndex job) const;  // its reserved start has come
  bool Overruns(JobIndex job) const;
  bool StaysWithinDeserved(JobIndex job) const;  // its queue, with the job
  void ChargeHeld(JobIndex job);
  void ChargeStopping();
  void RefundStopping();
  void ChargeBack(const Victim& victim);
  void StopVictim(JobIndex preemptor, const Victim& victim);

  PlanDraft& draft_;
  PlanningState& s_;
  ReservationBook& book_;
};

}  // namespace scheduler
