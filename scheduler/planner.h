// The planner: what to start, stop and move now, and why.
//
// MakePlan is a pure function of a snapshot. Planner is the same for those who plan again and again (the
// control loop, the simulator): it keeps the state between cycles and is told what happened. Both give the
// same plan for the same state, time and random source, byte for byte.
//
// One cycle: shares → order → per job admission, gang placement, backfill behind reservations → reclaim and
// preemption → defragmentation → faults, all of it in one Trial, which is committed at the end: the plan is
// taken to happen. A job that a plan stops holds its devices until Stopped() tells that it has.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "scheduler/cycle/explain.h"
#include "scheduler/cycle/job_table.h"
#include "scheduler/plan.h"
#include "scheduler/policy.h"
#include "scheduler/queues/queue_tree.h"
#include "scheduler/rng.h"
#include "scheduler/snapshot.h"

namespace scheduler {

struct PlanningState;

class Planner {
 public:
  // The cluster must outlive it. The names in policy and queues were checked by their readers.
  Planner(const Cluster& cluster, const std::vector<Queue>& queues, Policy policy);
  // The cluster of the snapshot is used: it must outlive the planner.
  Planner(const Snapshot& snapshot, Policy policy);
  ~Planner();

  // What happened. `now` never goes back. A job's index is free again when it has left.
  JobIndex Submit(Job job, conf::TimePoint now);
  void Ended(JobIndex job, conf::TimePoint now);  // by itself, well
  void Failed(JobIndex job,
              conf::TimePoint now);  // by itself: waits again, or leaves when its restarts are used up
  void Stopped(JobIndex job, conf::TimePoint now);       // as a plan told it to
  void Moved(JobIndex job, conf::TimePoint now);         // its members stand at their new places only
  void Checkpointed(JobIndex job, conf::TimePoint now);  // what it has done up to now is safe
  void Idle(JobIndex job, conf::TimePoint since);        // a notebook that nobody uses any more
  void Used(JobIndex job, conf::TimePoint now);          // or uses again: starts again if it was suspended
  void NodeFault(NodeId node, conf::TimePoint now);      // what ran on it is gone
  void DeviceFault(NodeId node, int device, conf::TimePoint now);
  // It works again after a fault. Its faults are remembered: it may be suspect still, or quarantined.
  void NodeRepaired(NodeId node, conf::TimePoint now);
  // As someone decides; healthy also mends its devices and forgets its faults.
  void SetHealth(NodeId node, Health health, conf::TimePoint now);

  Plan Run(conf::TimePoint now, Rng& rng);
  uint64_t version() const;  // rises with every cycle

  // Why a job waits, by the state now and what the last cycle reserved.
  Explanation Explain(JobIndex job, conf::TimePoint now) const;

  Snapshot TakeSnapshot(conf::TimePoint now) const;

  const ClusterState& state() const;
  const JobTable& jobs() const;
  const ShapeTable& shapes() const;
  const QueueTree& queues() const;
  size_t pending() const;
  // When a cycle would be due though nothing happens: a limit, an advance start, an idle notebook, the end of
  // a grace, a suspect node's recovery, the next defragmentation.
  std::optional<conf::TimePoint> NextDue() const;

 private:
  std::unique_ptr<PlanningState> state_;
};

// The random source of one cycle: what a run with this seed draws at this version, so that a snapshot of it
// replays.
Rng CycleRng(uint64_t seed, uint64_t version);

Plan MakePlan(const Snapshot& snapshot, const Policy& policy, conf::TimePoint now, Rng& rng);

}  // namespace scheduler
