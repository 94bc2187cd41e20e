// Reservations: where and when a job that waits will start, which those that overtake it may not delay.
//
// Running jobs are taken to end as expected; the job gets the nodes on which it then fits first. What
// overtakes it must have ended by then or keep off those nodes. EASY keeps one reservation, conservative
// many.
#pragma once

#include <optional>
#include <vector>

#include "scheduler/cycle/job_table.h"
#include "scheduler/placement/gang.h"

namespace scheduler {

struct Reservation {
  JobIndex job = kNone;
  conf::TimePoint start{};
  conf::TimePoint end{};
  std::vector<NodeId> nodes;        // ascending
  std::vector<MemberAt> members{};  // where exactly, if others were told to make room there

  bool is_room() const { return !members.empty(); }
};

// One job's expected end, as reservations see it.
struct Release {
  conf::TimePoint at{};
  uint64_t sequence = 0;
  JobIndex job = kNone;
};

// By time, then by order of submission.
void SortReleases(std::vector<Release>& releases);

// The reservations of a cycle.
class Reservations {
 public:
  explicit Reservations(size_t nodes) : kept_off_(nodes) {}

  void Add(Reservation reservation) { all_.push_back(std::move(reservation)); }
  const std::vector<Reservation>& all() const { return all_; }
  bool empty() const { return all_.empty(); }
  void Truncate(size_t size) { all_.resize(size); }

  // The nodes that a job running over [from, to) must keep off; null: none. Good until the next call.
  const NodeSet* KeepOff(conf::TimePoint from, conf::TimePoint to);
  // The last start before `to`: a job that has ended by then has fewer nodes to keep off than one that ends
  // at `to`.
  conf::TimePoint LastStartBefore(conf::TimePoint to) const;

 private:
  std::vector<Reservation> all_;
  NodeSet kept_off_;
};

// Finds when `job` starts at the latest, running for `run` from then, never before `not_before`: releases are
// taken in order within the trial, which is as before afterwards. Nothing: not by `before`, or it would not
// fit in the empty cluster either.
std::optional<Reservation> Reserve(Trial& trial, GangPlacer& gangs, Placer& placer, JobIndex job,
                                   const JobEntry& entry, conf::Duration run, conf::TimePoint now,
                                   conf::TimePoint not_before, const std::vector<Release>& releases,
                                   Reservations& others, const NodeSet* zone,
                                   conf::TimePoint before = conf::TimePoint::max());

}  // namespace scheduler
