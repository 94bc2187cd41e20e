// Everything that a planning cycle depends on, as one value: written to a file, it replays the decision.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "conf/time.h"
#include "conf/words.h"
#include "scheduler/learned_demand.h"
#include "scheduler/learned_runs.h"
#include "scheduler/model.h"
#include "scheduler/plan.h"
#include "scheduler/queue.h"
#include "scheduler/work.h"

namespace scheduler {

enum class Phase : uint8_t {
  kPending,  // waits for its (next) start
  kRunning,
  kStopping,   // told to stop; holds its devices until it has stopped
  kSuspended,  // a notebook without a user: starts again when its user comes back
};

// The next state of a job after it has stopped.
enum class AfterStop : uint8_t { kWaits, kSuspends, kLeaves };

struct JobState {
  Job job;
  Phase phase = Phase::kPending;
  std::vector<MemberAt> members{};  // that hold devices, by role and rank
  conf::TimePoint started{};        // of the present run
  conf::TimePoint checkpointed{};   // when work was last safe; at a start, the start
  conf::TimePoint stops_at{};       // kStopping: when the grace ends
  AfterStop after_stop = AfterStop::kWaits;
  std::optional<conf::TimePoint> idle_since{};  // a notebook without a user
  bool lost_members = false;                    // to a fault, since the last cycle
  bool backfilled = false;          // the present run began beside reservations for jobs ahead of it
  std::vector<MemberAt> leaving{};  // old places of members that are moving, held until they have
  conf::TimePoint moved{};          // the last time
  conf::Duration done{};            // useful run time of earlier runs that a restart keeps
  uint32_t restarts = 0;
};

struct NodeHealth {
  Health health = Health::kHealthy;
  uint32_t broken_devices = 0;            // bit d
  uint32_t emptied_devices = 0;           // of these, those whose work is to leave
  HostAmounts others{};                   // held by what the planner does not know
  int64_t unmodelled_milliwatts = 0;      // drawn beyond what the watts of its kind say; may be below 0
  std::vector<conf::TimePoint> faults{};  // within the fault policy's window
};

struct Snapshot {
  uint64_t version = 0;
  conf::TimePoint as_of{};
  Cluster cluster;
  std::vector<NodeHealth> health{};  // per node; empty: as the cluster says
  std::vector<Queue> queues{};
  std::vector<JobState> jobs{};  // in the order in which they were submitted
  // Decayed usage in device-milli-seconds as of `as_of`: (queue, user) → amount.
  std::map<std::pair<std::string, std::string>, double> usage{};
  std::vector<std::string> tenants{};    // in the order of their numbers, which holdings name
  LearnedDemand demand{};                // the requests so far
  LearnedRuns runs{};                    // the run times so far, where the order uses them
  std::vector<Reserved> reserved{};      // by the last cycle
  std::vector<std::string> failed{};     // ids of jobs that failed for good since the last cycle
  conf::TimePoint defragmented{};        // when that was last done
  std::vector<conf::TimePoint> moves{};  // in the last hour, where they have a budget
};

conf::Words<Phase> WordsOf(Phase);
std::string_view Name(Phase phase);
conf::Words<AfterStop> WordsOf(AfterStop);
std::string_view Name(AfterStop after);

}  // namespace scheduler
