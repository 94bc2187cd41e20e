// The plan that a cycle is making: the actions so far, and the trial in which all of them have happened.
//
// Each decision is charged and counted at once, so that later ones see it.
// Finish commits the trial. Inside the planner only; lives for one cycle.
#pragma once

#include <cstddef>
#include <cstdint>
#include <set>
#include <vector>

#include "scheduler/cycle/planning_state.h"
#include "scheduler/cycle/reservation.h"
#include "scheduler/plan.h"
#include "scheduler/rng.h"

namespace scheduler {

class PlanDraft {
 public:
  PlanDraft(PlanningState& state, conf::TimePoint now, Rng& rng);

  PlanningState& state() { return s_; }
  conf::TimePoint now() const { return now_; }
  Rng& rng() { return rng_; }
  Trial& trial() { return trial_; }

  // The members are in the trial already; a running job grows by them.
  void Start(JobIndex job, std::vector<MemberAt> members, Reason why);
  void Stop(JobIndex job, ActionKind kind, AfterStop after, conf::Duration grace, Reason why);
  // The job stops and waits again, or loses these members, for another job. Members that this plan itself starts are
  // taken back instead: no action has them, and their places are free at once.
  void Preempt(JobIndex job, Reason why);
  void Shrink(JobIndex job, const std::vector<MemberAt>& members, Reason why);
  // In the trial the members are at their old and their new places.
  void Move(JobIndex job, const std::vector<MemberAt>& from, std::vector<MemberAt> to, Reason why);
  // A job that waits leaves for good.
  void Abandon(JobIndex job, Reason why);
  void Waits(JobIndex job, Reason why);
  conf::Duration GraceOf(const JobEntry& entry) const;
  // Whether the job was waiting before this plan, which starts it.
  bool Begins(JobIndex job) const { return begun_.contains(job); }
  // Members whose start was taken back so far.
  size_t taken_back() const { return taken_back_; }

  // When the running jobs are expected to end, in order. Good until the next change.
  const std::vector<Release>& Releases();

  // Places the members that the job lacks, within the bounds of its queue; surplus members of an elastic job that
  // exceed the bounds are left out. Empty: the trial and the random source are unchanged.
  std::vector<MemberAt> PlaceMembers(JobIndex job, const NodeSet* keep_off);
  // Takes surplus members out of `placed` and the trial until the job's queue admits the rest; false: it does
  // not.
  bool LeaveOutSurplus(JobIndex job, std::vector<MemberAt>& placed);
  // Whether the job fits beside the running jobs, without regard to reservations.
  bool FitsUnreserved(JobIndex job);
  // Whether the job would not fit even if all other jobs ended; computed once for all jobs with the same ask.
  bool IsImpossible(JobIndex job);

  // Takes members out of the trial: the old places of the job's moving members; or those of all jobs, and the members
  // of stopping jobs.
  void EvictLeaving(JobIndex job);
  void EvictAllLeaving();

  // Commits the trial.
  Plan Finish(const std::vector<Reservation>& reservations);

 private:
  std::vector<Amount> AmountsOf(const std::vector<MemberAt>& members) const;
  // Returns the other members: those that ran before this plan.
  std::vector<MemberAt> TakeBack(JobIndex job, const std::vector<MemberAt>& members);
  void EvictAt(JobIndex job, const MemberAt& place);

  PlanningState& s_;
  conf::TimePoint now_;
  Rng& rng_;
  Trial trial_;
  Plan plan_;
  std::set<JobIndex> begun_;  // looked up only
  size_t taken_back_ = 0;
  std::vector<Release> releases_;
  bool releases_known_ = false;
};

}  // namespace scheduler
