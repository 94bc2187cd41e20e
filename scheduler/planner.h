// The planner: what to start, stop and move now, and why.
//
// MakePlan is a pure function of a snapshot. Planner does the same for callers that plan again and again (the
// control loop, the simulator): it keeps the state between cycles and receives events. Both give the
// same plan for the same state, time and random source, byte for byte.
//
// A cycle (cycle/cycle.h) happens in one Trial, which is committed at the end: the planner assumes that the plan is
// carried out. A job that a plan stops holds its devices until Stopped() reports that it has stopped.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "scheduler/cycle/explain.h"
#include "scheduler/placement/demand_mix.h"
#include "scheduler/plan.h"
#include "scheduler/policy.h"
#include "scheduler/queues/queue_tree.h"
#include "scheduler/rng.h"
#include "scheduler/snapshot.h"
#include "scheduler/state/job_table.h"
#include "scheduler/state/resource_counts.h"

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
  void Ended(JobIndex job, conf::TimePoint now);     // by itself: its run time is learned
  void Withdraw(JobIndex job, conf::TimePoint now);  // it leaves, and nothing is learned from it
  void Failed(JobIndex job,
              conf::TimePoint now);  // by itself: waits again, or leaves when its restarts are used up
  void Stopped(JobIndex job, conf::TimePoint now);  // as a plan told it to
  void Moved(JobIndex job, conf::TimePoint now);    // its members stand at their new places only
  // Another job replaces a job that is to move, and runs at the new places from now. The old places belong to the first
  // job until it ends, and count as places that it leaves.
  JobIndex HandOver(JobIndex job, Job replacement, conf::TimePoint now);
  // A running job continues as `replacement`, with all its members where they are: its class, priority or queue has
  // changed. The replacement may have the same id.
  JobIndex Replace(JobIndex job, Job replacement, conf::TimePoint now);
  void Unmoved(JobIndex job, conf::TimePoint now);       // it does not move, and keeps its old places
  void Checkpointed(JobIndex job, conf::TimePoint now);  // its work up to now is saved
  void Idle(JobIndex job, conf::TimePoint since);        // a notebook without a user
  void Used(JobIndex job, conf::TimePoint now);          // its user is back: starts again if it was suspended
  void NodeFault(NodeId node, conf::TimePoint now);      // its running members are lost
  void DeviceFault(NodeId node, int device, conf::TimePoint now);
  // The node works again after a fault. Its faults are remembered: it may still be suspect or quarantined.
  void NodeRepaired(NodeId node, conf::TimePoint now);
  // As a person decides; healthy also mends its devices and forgets its faults.
  void SetHealth(NodeId node, Health health, conf::TimePoint now);
  // The report of a cluster manager or a device probe on the node: its health, which of its devices are faulty
  // or gone (bit d), and the CPU and memory that others hold. Nothing new is placed there; members keep what
  // they hold, and faults are remembered. Afterwards the planner is the same as one made from its snapshot
  // with these values in `health`.
  void UpdateNode(NodeId node, Health health, uint32_t broken_devices, HostAmounts others,
                  conf::TimePoint now);

  // Which of the node's broken devices work is to leave (bit d), as the budget of moves allows.
  void UpdateEmptied(NodeId node, uint32_t devices, conf::TimePoint now);

  // The measured power of a node, and the learned power of a kind's devices. Both count against power budgets until the
  // next report; a member that starts adds the difference between a busy and an idle device.
  void UpdateDrawn(NodeId node, double watts);
  void UpdateKindWatts(KindId kind, KindWatts watts);

  Plan Run(conf::TimePoint now, Rng& rng);
  uint64_t version() const;  // rises with every cycle

  // Why a job waits, by the present state and the reservations of the last cycle.
  Explanation Explain(JobIndex job, conf::TimePoint now) const;

  Snapshot TakeSnapshot(conf::TimePoint now) const;

  const ClusterState& state() const;
  const JobTable& jobs() const;
  const ShapeTable& shapes() const;
  const QueueTree& queues() const;
  const ResourceCounts& resources() const;
  const DemandMix& mix() const;  // learned from the jobs so far
  size_t pending() const;
  // When a cycle is due without an event: at a reserved start, a time limit, an advance start, an idle notebook's end,
  // the end of the wait for a preferred topology, a suspect node's recovery; at once where the last cycle took a start
  // back and made another one.
  std::optional<conf::TimePoint> NextDue() const;
  // The first start that the last cycle reserved for later, or at once as above: NextDue() if no other event can be
  // due.
  std::optional<conf::TimePoint> NextReservedStart() const;

 private:
  std::unique_ptr<PlanningState> state_;
};

// The random source of the cycle with this version in a run with this seed, so that a snapshot replays.
Rng CycleRng(uint64_t seed, uint64_t version);

Plan MakePlan(const Snapshot& snapshot, const Policy& policy, conf::TimePoint now, Rng& rng);

}  // namespace scheduler
