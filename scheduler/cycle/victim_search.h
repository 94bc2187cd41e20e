// The search for victims: which jobs to stop so that one job can start, the fewest, at the least cost.
//
// By priority, a job stops preemptible work of lower priority: of its own queue freely, of other queues only
// what they run beyond what they deserve; work that only fills what is idle (IsFiller) freely, too. By reclaim, a job whose queue stays within what it deserves takes
// from queues that are beyond theirs, and leaves them what they deserve. Only where jobs are too large for
// that, a queue that holds no more than half of what it deserves with the job may go further, as long as the
// others stay at least as well off, in parts of deserved, as its own is then. So each reclaim raises the
// worst-off of the two, each preemption by priority leaves deserved alone, and no chain of them comes back to
// where it began. Queues are compared below the lowest queue that holds both.
//
// Outline: weigh every job that may be stopped; free quota where that is what lacks; per fabric domain that
// may hold the gang take, again and again, the node whose victims weigh least per place won, surplus members
// of elastic gangs before whole jobs; try the domains from the lightest; give back, from the heaviest, every
// victim without which the job fits, too. For a pinned job, its places alone are looked at.
//
// For moves, the victims are jobs that can go on elsewhere, and those that only fill what is idle; where the former go,
// the caller decides. For a reservation whose start has come, they are backfilled jobs that have outlived their
// estimates, whatever their queues and priorities.
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
  kMove,     // jobs that go on elsewhere or only fill what is idle: whole ones, whatever their queues
  kOverrun,  // backfilled jobs that have outlived their estimates, whatever their queues
};

struct Victim {
  JobIndex job = kNone;
  bool whole = true;              // else it shrinks by `members`
  std::vector<MemberAt> members;  // that stop, by role and rank
  double cost = 0;                // GPU-seconds
  Reason why;
};

// The cost of stopping these members: work since the last checkpoint, one checkpoint and one restart, for
// each device, and for inference replicas the risk to their service, which grows with the part that goes.
// Members that shrink from an elastic gang lose no work, but the gang regroups.
double StopCost(const JobEntry& entry, int64_t stopped_milli, int64_t held_milli, bool whole,
                conf::TimePoint now);

// The cost of moving a job: one checkpoint and one restart for each of its devices. A replica is replaced first,
// so that its move costs what it holds twice meanwhile.
double MoveCost(const JobEntry& entry, int64_t held_milli);

struct VictimSearchInput {
  Trial& trial;
  const JobTable& jobs;
  const ShapeTable& shapes;
  QueueTree& tree;
  const PreemptionPolicy& policy;
  conf::TimePoint now{};
  std::function<bool(JobIndex)> among{};   // kMove, kOverrun: which jobs
  std::function<bool(JobIndex)> begins{};  // which jobs have not begun yet, so that a stop costs nothing
};

// Places the job in the trial, or leaves the trial as it was.
using TryPlace = absl::FunctionRef<bool(Trial&)>;

// Victims by order of submission; none: no set of at most policy.max_victims jobs was found, and trial and
// tree are as before. Else the trial holds the victims evicted and the job placed, and the tree has the
// victims refunded and the job not yet charged. Each victim is needed: with any one given back it does not
// fit. Whether this mode is enabled at all is the caller's matter.
std::vector<Victim> FindVictims(const VictimSearchInput& input, JobIndex job, PreemptMode mode, TryPlace fits,
                                Rng& rng);

}  // namespace scheduler
