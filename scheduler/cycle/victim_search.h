// The search for victims: which jobs to stop so that one job can start, the fewest, at the least cost.
//
// By priority, a job stops preemptible work of lower priority: freely in its own queue, and in other queues only what
// exceeds their deserved share. Work that only fills idle devices (IsFiller) is stopped freely, too. By reclaim, a job
// whose queue stays within its deserved share takes from queues that exceed theirs, and leaves them their deserved
// share. Only where jobs are too large for that, a queue that holds at most half of its deserved share with the job may
// go further, as long as the other queues keep at least the same part of their deserved share. So each reclaim raises
// the worst-off of the two, each preemption by priority respects deserved shares, and no chain of them returns to its
// start. Queues are compared below the lowest queue that holds both.
//
// Outline: weigh every job that may be stopped. Free quota if quota is lacking. In each fabric domain that may hold the
// gang, repeatedly take the node whose victims weigh least for each place won; surplus members of elastic gangs go
// before whole jobs. Try the domains from the lightest. Give back, from the heaviest, every victim that is not needed.
// For a pinned job, only its own places count.
//
// For moves, the victims are jobs that can continue elsewhere, and fillers; the caller decides where the former go. For
// a reservation whose start has come, they are backfilled jobs that have outlived their estimates, whatever their
// queues and priorities.
//
// Costs are in GPU-seconds of work lost or done again. Pure; same input, same victims.
#pragma once

#include <absl/functional/function_ref.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "conf/time.h"
#include "scheduler/plan.h"
#include "scheduler/policy.h"
#include "scheduler/queues/queue_tree.h"
#include "scheduler/rng.h"
#include "scheduler/state/cluster_state.h"
#include "scheduler/state/job_table.h"

namespace scheduler {

enum class PreemptMode : uint8_t {
  kPriority,
  kReclaim,
  kMove,     // whole jobs that continue elsewhere, and fillers, whatever their queues
  kOverrun,  // backfilled jobs that have outlived their estimates, whatever their queues
};

struct Victim {
  JobIndex job = kNone;
  bool whole = true;              // else it shrinks by `members`
  std::vector<MemberAt> members;  // that stop, by role and rank
  double cost = 0;                // GPU-seconds
  Reason why;
};

// The cost of stopping these members: for each device, the work since the last checkpoint, one checkpoint and one
// restart; for inference replicas also the risk to their service, which grows with the stopped part. Members that leave
// an elastic gang lose no work, but the gang regroups.
double StopCost(const JobEntry& entry, int64_t stopped_milli, int64_t held_milli, bool whole,
                conf::TimePoint now);

// The cost of moving a job: one checkpoint and one restart for each of its devices. A replica holds its devices twice
// until the new one serves, which is the cost of its move.
double MoveCost(const JobEntry& entry, int64_t held_milli);

struct VictimSearchInput {
  Trial& trial;
  const JobTable& jobs;
  const ShapeTable& shapes;
  QueueTree& tree;
  const PreemptionPolicy& policy;
  conf::TimePoint now{};
  std::function<bool(JobIndex)> among{};   // kMove, kOverrun: which jobs
  std::function<bool(JobIndex)> begins{};  // which jobs only this plan starts: a stop costs nothing
};

// Places the job in the trial, or leaves the trial as it was.
using TryPlace = absl::FunctionRef<bool(Trial&)>;

// The victims, in the order of submission; empty: no set of at most policy.max_victims jobs was found, and trial and
// tree are unchanged. Otherwise the trial has the victims evicted and the job placed, and the tree has the victims
// refunded and the job not yet charged. Each victim is needed: if any of them stays, the job does not fit. The caller
// checks whether this mode is enabled.
std::vector<Victim> FindVictims(const VictimSearchInput& input, JobIndex job, PreemptMode mode, TryPlace fits,
                                Rng& rng);

}  // namespace scheduler
