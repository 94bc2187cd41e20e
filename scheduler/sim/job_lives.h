// The jobs of a simulated world: how each arrives, waits, works, is stopped, loses work and ends.
//
// A job is named by its number among the arrivals. One thread; must not outlive the simulation.
#pragma once

#include <absl/container/flat_hash_map.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "scheduler/plan.h"
#include "scheduler/sim/simulation.h"

namespace scheduler::sim {

class JobLives {
 public:
  explicit JobLives(Simulation& simulation);

  void Arrive();                    // the next job
  void Handle(const Event& event);  // of a job
  void Apply(const Action& action);

  // Jobs with members on the node; their accounts are settled.
  std::vector<uint32_t> SettleOn(NodeId node);
  // To a fault, which the planner knows of: work since the last checkpoint is lost, and the jobs that ran
  // halt until the next plan.
  void FailMembers(const std::vector<uint32_t>& jobs);
  // After a plan: jobs that lost members and that the plan neither stopped nor gave others continue with
  // those that are left.
  void ResumeHalted();
  // At the end of the world: counts the jobs that have arrived and are not over.
  void CountUnfinished();

  uint32_t active() const { return active_; }  // jobs that hold devices
  uint32_t over() const { return over_; }
  bool all_over() const { return over_ + endless_ >= lives_.size(); }  // but for those without a run time
  // How long only jobs that never end have held devices, and no job has arrived; 0 while another holds some.
  conf::Duration only_endless_for() const {
    return active_ending_ > 0 ? conf::Duration::zero() : sim_.now - changed_;
  }

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
    uint32_t unmet = 0;     // jobs that must end before it
    bool hopeless = false;  // one of those has failed
    Stage stage = Stage::kAhead;
    bool counted_waiting = false;
    bool saves = false;  // kStopping: its work will be kept
    bool idle = false;
    bool checkpoints = false;  // a periodic one is being saved, until `useful_from`
    bool was_started = false;
    conf::TimePoint due{};          // could have started from then on
    conf::TimePoint settled{};      // its accounts are right up to then
    conf::TimePoint useful_from{};  // loading, restoring or saving until then
    conf::TimePoint leaves =
        conf::TimePoint::min();  // moves or shrinks: its old places are free from then on
    conf::TimePoint back{};      // idle: when its user returns; max: after it has been suspended
    conf::Duration done{};       // work, at full size
    conf::Duration kept{};       // of it, safe from faults
    double rate = 1;
    int64_t held_milli = 0;
    double unsafe_h = 0;  // device-hours of work since the last checkpoint
  };

  void Settle(uint32_t job);
  void Start(uint32_t job);     // or continues, with more members
  void Schedule(uint32_t job);  // its next events, by its members
  void BeginStop(uint32_t job, conf::Duration grace);
  void StopDone(uint32_t job);
  void End(uint32_t job);
  void Over(uint32_t job, bool well);
  void BeginCheckpoint(uint32_t job);
  void CheckpointDone(uint32_t job);
  void Keep(uint32_t job);      // its work is safe
  void RollBack(uint32_t job);  // back to the last checkpoint
  void Move(uint32_t job);
  void Shrink(uint32_t job, conf::Duration grace);
  void LeavePlaces(uint32_t job, conf::TimePoint at);
  void PlacesLeft(uint32_t job);
  void GoIdle(uint32_t job);
  void ComeBack(uint32_t job);
  void BecomeDue(uint32_t job);
  void SetWaiting(uint32_t job, bool waits);
  void UpdateHeld(uint32_t job);
  void MeasurePlace(uint32_t job);
  bool HasContract(uint32_t job) const;
  conf::Duration RestoreTime(uint32_t job) const;
  void PushOfJob(EventKind kind, uint32_t job, conf::TimePoint at);

  void ReadDependencies();
  const Job& AskOf(uint32_t job) const { return sim_.arrivals.RowOf(job).job; }
  std::optional<conf::Duration> RunOf(uint32_t job) const { return sim_.arrivals.RowOf(job).run; }
  void CountActive(uint32_t job, int change);
  // The jobs that wait for this one.
  std::vector<uint32_t> DependentsOf(uint32_t job) const;

  Simulation& sim_;
  std::vector<Life> lives_;
  absl::flat_hash_map<std::string, uint32_t> queues_;  // by name
  absl::flat_hash_map<std::string, uint32_t> by_id_;   // jobs that have arrived and are not over
  std::vector<std::vector<uint32_t>> dependents_;      // by row of the trace; empty: no job waits for another
  std::vector<uint32_t> by_index_;                     // the planner's number of a job → ours
  std::vector<uint32_t> halted_;
  uint32_t active_ = 0;
  uint32_t active_ending_ = 0;  // of them, those with a run time or a limit
  conf::TimePoint changed_{};   // when the number of those changed, or a job arrived
  uint32_t endless_ = 0;        // jobs without a run time
  uint32_t over_ = 0;
};

}  // namespace scheduler::sim
