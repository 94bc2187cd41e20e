// All nodes that a cycle keeps for jobs that wait: reservations by expected start, and nominations.
//
// A nomination holds exact places for a job for which others are stopped. The job starts exactly there when they have
// gone; until then no other job is placed on these nodes. The nominated job is charged until the walk through the queue
// has ended. A nomination that can no longer be met (a node failed, a bound of the queue was lowered) or waits for
// nothing is given up, and its job queues again.
//
// Under conservative backfill, the reservations of the last cycle are promises: a job keeps its own unless it
// can start earlier. Inside the planner only; lives for one cycle.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "scheduler/cycle/plan_draft.h"
#include "scheduler/cycle/reservation.h"

namespace scheduler {

class ReservationBook {
 public:
  explicit ReservationBook(PlanDraft& draft);

  const std::vector<Reservation>& all() const { return reservations_.all(); }
  bool empty() const { return reservations_.empty(); }
  conf::TimePoint LastStartBefore(conf::TimePoint to) const { return reservations_.LastStartBefore(to); }

  // Starts the nominated jobs whose places are free, keeps the nominations that can still be met, and gives
  // up the others.
  void KeepNominations();
  void Nominate(JobIndex job, std::vector<MemberAt> members);
  // Starts the job, which others make room for, on just these places, if they and what else it asks for are free.
  bool StartOn(JobIndex job, const std::vector<MemberAt>& places);
  bool IsNominated(JobIndex job) const;
  // In the trial, puts the nominated jobs on their places where these are free.
  void AssignNominations();
  void RefundNominations();

  // Nodes that the job must keep off; null: none. Good until the next call of any of these.
  // For a job that runs: other zones and nominations.
  const NodeSet* KeepOffNominations(const JobEntry& entry);
  // For a start that lasts over [from, to): reservations, too.
  const NodeSet* KeepOff(const JobEntry& entry, conf::TimePoint from, conf::TimePoint to);
  // For a job that preempts: nominated places are already taken in the trial, but the rest of their nodes stays open.
  const NodeSet* KeepOffToPreempt(const JobEntry& entry, conf::TimePoint from, conf::TimePoint to);

  // Places the job on the nodes that the last cycle reserved for it, if the time has nearly come and it fits
  // there.
  std::vector<MemberAt> PlaceOnReserved(JobIndex job, const NodeSet* keep_off);

  // Whether the start that the last cycle reserved for the job has come.
  bool IsDue(JobIndex job) const;

  // The last cycle's promise to the job; its promise is no longer counted among those to others.
  std::optional<Reservation> TakePromise(JobIndex job);
  // Counts the promises to others as reservations, until Truncate(the size that it gives).
  size_t AddPromises();
  void Truncate(size_t size) { reservations_.Truncate(size); }

  // Makes a reservation for the job; false: it never fits beside those of others.
  bool Reserve(JobIndex job, conf::TimePoint not_before, const std::optional<Reservation>& promise);

 private:
  bool OthersLeave() const;
  void Add(Reservation nomination);
  bool Assign(JobIndex job, const std::vector<MemberAt>& places);  // all of them, or nothing
  bool StillFits(const Reservation& promise);
  bool IsLate(const Reservation& reservation) const;
  std::optional<Reservation> Find(JobIndex job, conf::TimePoint not_before, const NodeSet* keep_off,
                                  conf::TimePoint before);
  std::optional<Reservation> FindAgain(JobIndex job, conf::TimePoint not_before);
  NodeSet AllBut(const std::vector<NodeId>& nodes) const;

  PlanDraft& draft_;
  PlanningState& s_;
  conf::TimePoint now_;
  Reservations reservations_;
  std::vector<Reservation> nominations_;  // of this cycle or before
  std::vector<Reservation> promises_;     // whose jobs have not had their turn
  std::vector<Reservation> last_;         // of the last cycle, without nominations
  std::vector<Reservation> due_;          // of those, the ones about to begin
  NodeSet kept_off_;                      // scratch: zone, nominations and reservations together
};

}  // namespace scheduler
