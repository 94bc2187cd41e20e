// A cluster and its users in virtual time, under the planner that production runs.
//
// Discrete events: jobs arrive and end, take checkpoints, are stopped with grace, lose work to faults; nodes
// fail, are repaired and drained; notebooks go idle and their users come back. At each moment at which
// something happened there is one planning cycle. The same cluster, jobs, policy and options give the same
// report, byte for byte.
//
// How work goes on: a job does useful work from its start on, after loading, and after restoring when it kept
// work of an earlier run; with a part of its members at that part of the speed. A fault loses what was done
// since the last checkpoint. A stop lets a job with a checkpoint contract save, if the grace is long enough;
// one that does not heed the signal works on until it is killed and falls back to its last checkpoint, one
// without a contract to its beginning. A periodic checkpoint holds the job up for its save, and is safe when
// that is over. A moved job saves and restores, an inference replica is replaced without a gap.
#pragma once

#include <absl/container/flat_hash_map.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "scheduler/planner.h"
#include "scheduler/sim/collector.h"
#include "scheduler/sim/events.h"
#include "scheduler/sim/traces/trace.h"

namespace scheduler::sim {

struct DomainFault {
  DomainId domain = 0;  // all nodes below it fail
  conf::Duration at{};  // since the first submission
};

struct Drain {
  NodeId node = 0;
  conf::Duration at{};  // since the first submission
  conf::Duration length{};
};

struct WorldOptions {
  uint64_t seed = 1;
  conf::Duration min_cycle{};  // between planning cycles
  conf::Duration load{};       // from any start of a job to its work
  conf::Duration mtbf{};       // mean time between faults of one node; 0: none fail by themselves
  conf::Duration repair = std::chrono::hours(4);
  conf::Duration quarantine =
      std::chrono::hours(24 * 7);  // until a quarantined node is back, its record clean
  std::vector<DomainFault> faults{};
  std::vector<Drain> drains{};
  conf::Duration notebook_used = std::chrono::hours(2);  // means, exponential
  conf::Duration notebook_idle = std::chrono::hours(6);
  conf::Duration sample_every = std::chrono::hours(1);
  conf::Duration horizon{};  // the world ends then; 0: when all that can end has, or after a century
  // What the first cycle at or after this time decides from, since the first submission.
  std::optional<conf::Duration> snapshot_at{};
  std::function<void(const Snapshot&)> on_snapshot{};
  bool saves_when_told = true;  // false: checkpoints are periodic only, the signal to stop is not heeded
  // Told of every plan as soon as it is made; empty: nobody asks.
  std::function<void(conf::TimePoint, const Plan&, const Planner&)> planned{};
};

struct Progress {
  size_t over = 0;  // jobs that have ended
  size_t jobs = 0;
  conf::Duration simulated{};
};

class World {
 public:
  // Jobs in order of submission, of queues that `queues` has and sizes that the cluster can hold. The cluster
  // outlives the world.
  World(const Cluster& cluster, std::vector<Queue> queues, Policy policy, std::vector<TraceJob> jobs,
        WorldOptions options);

  // Once. `progress` is called after each moment and says whether to go on; it may be empty. A run that was
  // broken off reports what there was until then.
  Report Run(const std::function<bool(const Progress&)>& progress = {});

 private:
  enum class Stage : uint8_t {
    kAhead,    // not yet submitted
    kWaiting,  // for room, for other jobs or for its time
    kRunning,
    kHalted,    // lost members to a fault, until the next plan
    kStopping,  // within its grace
    kSuspended,
    kOver,
  };

  struct Life {  // of one job
    JobIndex index = kNone;
    uint32_t epoch = 0;  // rises with every change that makes its events stale
    uint32_t queue = 0;
    uint32_t unmet = 0;  // jobs that must end before it
    Stage stage = Stage::kAhead;
    bool counted_waiting = false;
    bool saves = false;  // kStopping: what is done will be kept
    bool idle = false;
    bool checkpoints = false;  // a periodic one is being saved, until `useful_from`
    bool was_started = false;
    conf::TimePoint due{};          // could have started from then on
    conf::TimePoint settled{};      // its accounts are right up to then
    conf::TimePoint useful_from{};  // loading, restoring or saving until then
    conf::Duration done{};          // work, at full size
    conf::Duration kept{};          // of it, what a fault does not lose
    double rate = 1;
    int64_t held_milli = 0;
    double unsafe_h = 0;  // device-hours of work since the last checkpoint
  };

  conf::TimePoint NextTime() const;
  void Handle(const Event& event);
  void HandleOfJob(const Event& event);
  void Arrive(uint32_t job);
  void PlanIfDue();
  void Apply(const Action& action);
  bool NothingWillHappen() const;
  Report Finish();

  void Settle(uint32_t job);
  void Start(uint32_t job);                             // or goes on, with more members
  void Interrupt(uint32_t job, conf::Duration length);  // no work is done for so long
  void Schedule(uint32_t job);                          // its next events, by what it holds
  void BeginStop(uint32_t job, conf::Duration grace);
  void StopDone(uint32_t job);
  void End(uint32_t job);
  void Over(uint32_t job, bool well);
  void BeginCheckpoint(uint32_t job);
  void CheckpointDone(uint32_t job);
  void Keep(uint32_t job);  // what is done is safe
  void Lose(uint32_t job);  // back to the last checkpoint
  void Move(uint32_t job);
  void GoIdle(uint32_t job);
  void ComeBack(uint32_t job);
  void BecomeDue(uint32_t job);
  void SetWaiting(uint32_t job, bool waits);
  void UpdateHeld(uint32_t job);
  void MeasurePlace(uint32_t job);
  bool HasContract(uint32_t job) const;
  conf::Duration RestoreTime(uint32_t job) const;
  void PushOfJob(EventKind kind, uint32_t job, conf::TimePoint at);

  void FailNode(NodeId node);
  void NodeIsBack(NodeId node);
  void KeepOut(NodeId node);
  void ResumeHalted();

  const Cluster* cluster_;
  std::vector<Queue> queues_;
  Policy policy_;
  std::vector<TraceJob> jobs_;
  WorldOptions options_;
  Rng fault_rng_;
  Rng user_rng_;
  DemandMix mix_;
  Planner planner_;
  JttedEstimator jtted_;
  conf::TimePoint start_;
  conf::TimePoint now_;
  Collector collector_;

  EventQueue events_;
  uint32_t next_arrival_ = 0;
  std::vector<Life> lives_;
  absl::flat_hash_map<std::string, uint32_t> by_id_;
  std::vector<std::vector<uint32_t>> dependents_;  // empty where no job waits for another
  std::vector<uint32_t> by_index_;                 // the planner's number of a job → ours
  std::vector<uint32_t> halted_;
  std::vector<uint32_t> node_epoch_;  // rises when a node fails: its other events are stale
  std::vector<bool> down_;
  std::vector<bool> quarantined_;  // of those that are down
  std::vector<bool> drained_;      // by the options, for now
  uint32_t down_count_ = 0;
  uint32_t active_ = 0;   // jobs that hold devices
  uint32_t coming_ = 0;   // events that may let a waiting job start, beside repairs
  uint32_t endless_ = 0;  // jobs without a run time
  uint32_t over_ = 0;
  bool something_happened_ = false;
  bool planner_has_dues_ = false;        // limits, idle times, faults: cycles that are due by themselves
  std::optional<conf::TimePoint> wake_;  // the earliest in the queue
  conf::TimePoint last_cycle_ = conf::TimePoint::min();
  std::vector<NodeId> scratch_;
  Report counts_;
};

// What the jobs ask for, and how often: at most `items` shapes, the most frequent ones.
DemandMix MixOf(const std::vector<TraceJob>& jobs, const Cluster& cluster, size_t items = 32);

}  // namespace scheduler::sim
