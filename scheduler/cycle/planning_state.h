// The planner's state between two cycles, and how events change it. Inside the planner only.
#pragma once

#include <absl/container/btree_set.h>

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "scheduler/cycle/pending.h"
#include "scheduler/cycle/reservation.h"
#include "scheduler/placement/gang.h"
#include "scheduler/placement/mix_learner.h"
#include "scheduler/placement/placer.h"
#include "scheduler/policy.h"
#include "scheduler/queues/order.h"
#include "scheduler/queues/queue_tree.h"
#include "scheduler/queues/run_history.h"
#include "scheduler/state/job_table.h"
#include "scheduler/state/resource_counts.h"

namespace scheduler {

using BySequence = absl::btree_set<std::pair<uint64_t, JobIndex>>;

// The charge of a job to its queue.
struct JobAccount {
  AccountId account = 0;
  std::vector<Amount> wanted;
  std::vector<Amount> minimum;
  KindId ranked_by = kAnyKind;
};

struct PlanningState {
  PlanningState(const Cluster& cluster, const std::vector<Queue>& queue_list, Policy planning_policy);

  JobIndex Add(Job job);
  void Learn(JobIndex job);                     // its demand, at its arrival
  void Learn(const LearnedDemand& state);       // of a snapshot
  void LearnRun(JobIndex job);                  // its run has ended now
  void Learn(const LearnedRuns& known);         // of a snapshot
  void Leave(JobIndex job);                     // devices, queue and table
  void Wait(JobIndex job);                      // pending, or held until it may start
  void Run(JobIndex job, conf::TimePoint now);  // its members were assigned and charged
  void EndRun(JobIndex job);                    // the job no longer counts as running; it keeps its devices
  void Release(JobIndex job);                   // gives back everything that it holds
  void Charge(JobIndex job, const Holding& holding);
  void Refund(JobIndex job, const Holding& holding);
  // By role and rank, at their new places where they move.
  std::vector<MemberAt> MembersOf(JobIndex job) const;
  // An old place of a moving member: still held, no longer charged.
  bool IsLeaving(const Member& member) const;
  // Keeps its work up to the last checkpoint, when its present run has ended.
  void KeepWork(JobEntry& entry) const;
  // Its members are told to leave these places.
  void AddLeaving(JobIndex job, const std::vector<MemberAt>& places);
  void DropLeaving(JobIndex job);  // gives the old places of moved members back
  // Gives the new places of moving members to `to`, which runs from now; the old places stay the job's.
  void HandOver(JobIndex job, JobIndex to);
  // Its members become those of another job, which is returned; it leaves.
  JobIndex Replace(JobIndex job, Job replacement);
  void TakeBackMove(JobIndex job);  // its members stand at their old places only
  // Moves that may still be made in this hour.
  uint32_t MovesLeft() const;
  // The members on the node, or on these of its devices, are gone: a gang has lost members, any other job its
  // run.
  void FailMembersOn(NodeId node, uint32_t devices = UINT32_MAX);
  void Fault(NodeId node, conf::TimePoint now);
  void BreakDevice(NodeId node, int device);
  void SetBrokenDevices(NodeId node, uint32_t devices);  // just these, bit d
  void SetEmptied(NodeId node, uint32_t devices);        // just these are to become empty, bit d
  void SetOthers(NodeId node, HostAmounts amounts);      // of CPU and memory: what others hold
  void Mend(NodeId node);                                // its devices work again, its faults are forgotten
  void RecoverNodes();                                   // suspects without a fault for long enough
  void AdvanceTo(conf::TimePoint time);
  void SetHealth(NodeId node, Health health);
  void UpdateCapacity();
  void UseMix();

  void MakeRoomForSignatures();
  // A job that has waited long enough for the topology that it prefers accepts any place from now on.
  void EndPatience();
  bool MayStart(const JobEntry& entry, conf::TimePoint now) const;  // dependencies and advance start
  conf::Duration ExpectedRun(JobIndex job) const {
    return jobs.ExpectedRun(job, policy.backfill.unknown_estimate);
  }
  void AddToPending(JobIndex job);
  double ExpectedHours(GroupId group);  // as learned; 0: of no class
  // The part of the rank that the job has in common with all of its group.
  double CommonScore(GroupId group, JobIndex job);
  Placer& PlacerFor(const JobEntry& entry) {
    return entry.job.work == WorkClass::kInference ? inference_placer : placer;
  }
  // Nodes that work of this class keeps off, whatever is reserved; null: none.
  const NodeSet* ZoneKeptOff(const JobEntry& entry) const;

  Policy policy;
  std::vector<Queue> queue_list;
  ClusterState state;
  ShapeTable shapes;
  JobTable jobs;
  QueueTree queues;
  ResourceCounts resources;  // held by `running`
  Order order;
  RunHistory runs;                   // empty where the order does not use it
  std::vector<JobAccount> accounts;  // by JobIndex
  MixLearner learner;
  Placer placer;
  Placer inference_placer;
  GangPlacer gangs;
  std::vector<NodeSet> zone;  // empty, or {inference's nodes, all others}

  Pending pending;
  std::vector<RunHistory::Chain> run_chains;  // by group of `pending`
  // Until when jobs wait for the topology that they prefer; may name jobs that have left.
  std::set<std::tuple<conf::TimePoint, uint64_t, JobIndex>> patience;
  BySequence held;     // wait for a time or for other jobs
  BySequence running;  // those that stop, too
  BySequence timed;    // of these, those with a time limit or an idle timeout
  BySequence moving;   // those with members that leave their places
  BySequence broken;   // those that lost members to a fault
  BySequence suspended;
  RunningArrays running_of_array;
  std::map<int32_t, uint32_t> running_by_priority;  // jobs
  std::vector<std::string> failed_for_good;         // ids since the last cycle: what depends on them leaves

  std::vector<Reservation> reservations;  // of the last cycle
  JobIndex line_stopped_by = kNone;       // in the last cycle, under strict FIFO
  bool plans_again = false;               // the last cycle took a start back and made another one

  std::map<NodeId, std::vector<conf::TimePoint>> faults;  // within the window
  std::map<NodeId, uint32_t> broken_devices;              // bit d
  std::map<NodeId, uint32_t> emptied_devices;             // bit d: work is to leave this device
  conf::TimePoint defragmented{};
  std::vector<conf::TimePoint> moves;  // in the last hour, ascending
  conf::TimePoint now{};
  conf::TimePoint planned = conf::TimePoint::min();  // the last cycle
  uint64_t version = 0;

  // Asks that found no room since the last release, and asks that an empty cluster cannot hold: by signature, the value
  // of the counter then.
  std::vector<uint64_t> no_room_since;
  std::vector<uint64_t> impossible_since;
  std::vector<uint64_t> possible_since;
  uint64_t freed = 1;
  uint64_t changed = 1;  // nodes, their health, and what others hold there
};

}  // namespace scheduler
