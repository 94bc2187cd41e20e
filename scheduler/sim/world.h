// A cluster and its users in virtual time, under the planner that production runs.
//
// Discrete events: jobs arrive and end, take checkpoints, are stopped with grace, lose work to faults; nodes
// fail, are repaired and drained; notebooks go idle and their users come back. Each moment with an event has
// one planning cycle. The same cluster, jobs, policy and options give the same report, byte for byte.
//
// How a job works:
// - It does useful work once it has loaded, and restored if it kept work of an earlier run. With a part of
//   its members it works at that part of the speed.
// - A fault loses the work since the last checkpoint.
// - A stop lets a job with a checkpoint contract save, if the grace is long enough. A job that ignores the
//   signal works on until it is killed, and falls back to its last checkpoint; one without a contract falls
//   back to its beginning.
// - A periodic checkpoint delays the job by the time of its save, and is safe after that.
// - A moved job saves and restores; an inference replica is replaced without a gap.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "scheduler/sim/job_lives.h"
#include "scheduler/sim/node_outages.h"
#include "scheduler/sim/simulation.h"

namespace scheduler::sim {

struct Progress {
  size_t over = 0;  // jobs that have ended
  size_t jobs = 0;
  conf::Duration simulated{};
};

class World {
 public:
  // Jobs in order of submission, of queues that `queues` has and sizes that the cluster can hold. Cluster and
  // jobs outlive the world.
  World(const Cluster& cluster, std::vector<Queue> queues, Policy policy, const std::vector<TraceJob>& jobs,
        WorldOptions options);

  // To be called once. `progress` is called after each moment and returns whether to continue; it may be
  // empty. A run that was stopped reports the time until then.
  Report Run(const std::function<bool(const Progress&)>& progress = {});

 private:
  bool AllHaveArrived() const { return sim_.arrivals.next() == sim_.arrivals.size(); }
  conf::TimePoint NextArrival() const { return sim_.arrivals.SubmissionOf(sim_.arrivals.next()); }
  conf::TimePoint NextTime() const;
  void Handle(const Event& event);
  void PlanIfDue();
  bool NothingWillHappen() const;
  Report Finish();

  Simulation sim_;
  JobLives lives_;
  NodeOutages outages_;
  bool planner_has_dues_ = false;        // limits, idle times, faults: cycles that are due by themselves
  std::optional<conf::TimePoint> wake_;  // the earliest in the queue
  conf::TimePoint last_cycle_ = conf::TimePoint::min();
};

}  // namespace scheduler::sim
