// One planning cycle over the planner's state, from its begin to a plan. Inside the planner only.
//
//   what is over → jobs whose room was made → gangs that lost members → advance reservations → the queue, in
//   order, with backfill, reclaim and preemption → elastic growth → nodes that drain → defragmentation
//
// All of it happens in one trial, committed at the end.
#pragma once

#include <cstdint>
#include <optional>
#include <queue>
#include <string>
#include <string_view>
#include <vector>

#include "scheduler/cycle/backfill.h"
#include "scheduler/cycle/planning_state.h"
#include "scheduler/cycle/preempt.h"
#include "scheduler/plan.h"
#include "scheduler/rng.h"

namespace scheduler {

class Cycle {
 public:
  Cycle(PlanningState& state, conf::TimePoint now, Rng& rng);

  Plan Run();

 private:
  enum class Outcome : uint8_t { kStarted, kNoRoom, kOnlyShorter, kQuota };

  // A group's first job that may still start, among all groups'.
  struct Turn {
    double score = 0;
    Place place;
    GroupId group = 0;
    bool operator<(const Turn& other) const {  // of a heap: the greatest goes first
      return score != other.score ? score < other.score : place.second > other.place.second;
    }
  };

  void EndWhatIsOver();
  void StopDependents();
  void ReleaseHeld();
  void RepairGangs();
  void ReserveInAdvance();
  void StartJobs();
  void StopTheLine(JobIndex job);
  void GrowElastic();
  void LeaveDrainingNodes();
  void DefragmentNodes();
  void MoveOff(JobIndex job);
  std::vector<Amount> AmountsOf(const std::vector<MemberAt>& members) const;
  // The members that the job lacks, placed and within its queue's bounds: what an elastic job may not have is
  // left out. Nothing is drawn from the random source and nothing stays in the trial when there are none.
  std::vector<MemberAt> PlaceMembers(JobIndex job, const NodeSet* keep_off);
  bool LeaveOutSurplus(JobIndex job, std::vector<MemberAt>& placed);
  bool FitsAnywhere(JobIndex job);
  // Whether it would not fit even if all else ended; found out once for all jobs that ask alike.
  bool Impossible(JobIndex job);

  Turn TurnAt(GroupId group, const Place& place) const;
  Outcome TryStart(JobIndex job);
  // On the nodes that the last cycle reserved for it, if it is about time and it fits there.
  std::vector<MemberAt> PlaceOnReserved(JobIndex job, const NodeSet* keep_off);
  NodeSet AllBut(const std::vector<NodeId>& nodes) const;
  // Whether room will come, by what was told to stop now or before.
  bool TryPreempt(JobIndex job);
  bool MayPreempt(JobIndex job) const;
  bool MayReclaim(JobIndex job) const;
  bool IsEntitled(JobIndex job) const;  // within what its queue deserves
  // The job will stand just there when what was told to stop has stopped: nothing else is placed on these
  // nodes until then, and until the queue has been gone through it is charged.
  void PromiseRoom(JobIndex job, std::vector<MemberAt> members);
  void KeepRooms();
  bool StartInRoom(const Reservation& room);
  bool AssignRoom(const Reservation& room);  // all of it, or nothing
  bool HasRoomToCome(JobIndex job) const;
  void AddRoom(Reservation room);
  void RefundRooms();
  // Nodes of such rooms and of other zones; null: none. Good until the next call.
  const NodeSet* KeepOffRooms(const JobEntry& entry);
  void ChargeStopping();
  void RefundStopping();
  void EvictLeaving(JobIndex job);
  void EvictWhatLeaves();
  void StopVictim(JobIndex preemptor, Victim& victim, bool reclaimed);
  // Whether there will be room for it.
  bool ReserveFor(JobIndex job, conf::TimePoint not_before, const std::optional<Reservation>& promise);
  std::optional<Reservation> TakePromise(JobIndex job);
  bool Holds(const Reservation& promise);
  bool IsLate(const Reservation& reservation) const;
  std::optional<Place> NextThatEndsBy(const PendingGroup& group, const Place& after,
                                      conf::TimePoint by) const;
  bool ArrayIsFull(const PendingGroup& group, JobIndex job);

  const NodeSet* KeepOff(const JobEntry& entry, conf::TimePoint from, conf::TimePoint to);
  // For one that makes room: beside room that is to come for others, but not in it.
  const NodeSet* KeepOffToPreempt(const JobEntry& entry, conf::TimePoint from, conf::TimePoint to);
  const std::vector<Release>& Releases();
  void Start(JobIndex job, std::vector<MemberAt> members, Reason why);
  void Stop(JobIndex job, ActionKind kind, AfterStop after, conf::Duration grace, Reason why);
  void Waits(JobIndex job, Reason why);
  conf::Duration GraceOf(const JobEntry& entry) const;

  PlanningState& s_;
  conf::TimePoint now_;
  Rng& rng_;
  Trial trial_;
  Plan plan_;
  Reservations reservations_;
  uint32_t max_reservations_;
  uint32_t reserved_in_line_ = 0;      // for the queue, beside advance reservations and room that was made
  std::vector<Reservation> promises_;  // conservative: of the last cycle, whose jobs have not had their turn
  std::vector<Reservation> last_;      // of the last cycle, room that was made aside
  std::vector<Reservation> due_;       // of the last cycle, about to begin
  std::vector<Release> releases_;
  bool releases_known_ = false;
  std::vector<conf::TimePoint> must_end_by_;  // by signature: later ends would be in a reservation's way
  std::vector<GroupId> tried_to_preempt_;     // in vain, this cycle
  std::vector<Reservation> rooms_;            // made by stopping others, in this cycle or before
  NodeSet kept_off_;                          // scratch: zone and reservations together
};

}  // namespace scheduler
