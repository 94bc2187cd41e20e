// Moves of running work, each for a gain that is named (MovesPolicy): a waiting job fits, a gang comes together,
// a device with a fault becomes empty.
//
// Inference replicas move: another replica first starts at the new place. Preemptible jobs that resume from a
// checkpoint move, too. A job stays if it has started or moved a short time ago, or is expected to end soon. Every move
// starts at places that are free while the old ones are still held. Moves for a waiting job must cost less than the job
// gains by its earlier start, and the job is nominated for the places, as after a preemption. Work that only fills idle
// devices does not move: it is stopped where such a job needs its place.
//
// Inside the planner only; lives for one cycle.
#pragma once

#include <optional>
#include <set>
#include <vector>

#include "scheduler/cycle/plan_draft.h"
#include "scheduler/cycle/reservation_book.h"
#include "scheduler/cycle/victim_search.h"

namespace scheduler {

class Moves {
 public:
  Moves(PlanDraft& draft, ReservationBook& book) : draft_(draft), s_(draft.state()), book_(book) {}

  // Moves others so that the waiting job fits; false: none can be moved, or it would not gain enough.
  bool TryFor(JobIndex job);
  // Work leaves devices with faults.
  void EmptyFaultyDevices();
  // Moves members of a gang that prefers a level of the fabric and now fits below one domain of it.
  void BringTogether();

  // Whether the job can move, has neither started nor moved a short time ago, and does not end soon.
  bool MayMove(JobIndex job) const;

 private:
  // One job, and the members that change their places.
  struct Relocated {
    JobIndex job = kNone;
    std::vector<Member> from;
    std::vector<MemberAt> to;
  };

  bool CanMove(JobIndex job) const;
  bool MayStop(JobIndex filler, const Job& waiting) const;
  conf::TimePoint ExpectedEnd(JobIndex job) const;
  bool HasMovedLately(const JobEntry& entry) const;
  conf::Duration GainOf(JobIndex job) const;
  std::vector<Victim> FindRoom(JobIndex job, const std::set<JobIndex>& stay, std::vector<MemberAt>& places);
  enum class OffNodes : bool { kNo, kYes };  // whether the nodes of the waiting job are avoided
  std::vector<Relocated> Relocate(JobIndex job, const std::vector<Victim>& victims,
                                  const std::vector<MemberAt>& places, OffNodes off, JobIndex& stuck);
  std::vector<Relocated> MustLeave(const std::vector<Victim>& victims);
  void StopFiller(const Victim& victim, const Job& waiting);
  bool FindPlaces(Relocated& move, const NodeSet* except);
  bool FindPlacesBeside(Relocated& move, const NodeSet* except);
  bool AreFree(const std::vector<MemberAt>& places);  // all together
  NodeSet KeepOff(JobIndex job);
  uint32_t EmptiedOn(NodeId node) const;
  void Move(const Relocated& move, Reason why);
  std::optional<Relocated> Gathered(JobIndex job);

  PlanDraft& draft_;
  PlanningState& s_;
  ReservationBook& book_;
  uint32_t searches_ = 0;
};

}  // namespace scheduler
