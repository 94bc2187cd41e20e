// The planner's jobs: what was asked, resolved against the cluster, and the state of each.
//
// An index is valid until its job is erased, and may then be another job's. So decisions order by `sequence`,
// never by index.
#pragma once

#include <absl/container/flat_hash_map.h>

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "scheduler/rng.h"
#include "scheduler/snapshot.h"
#include "scheduler/state/cluster_state.h"
#include "scheduler/state/shape_table.h"

namespace scheduler {

struct JobEntry {
  // A cycle reads these of every running job: together they take two cache lines.
  uint64_t sequence = 0;  // rises with every job submitted
  Phase phase = Phase::kPending;
  AfterStop after_stop = AfterStop::kWaits;
  bool lost_members = false;  // to a fault, since the last cycle
  bool alive = false;         // the entry is in use
  bool backfilled = false;    // its present run began beside reservations for jobs ahead of it
  uint32_t signature = 0;     // the same for jobs that ask for the same: what fits one, fits the other
  uint32_t queue = 0;         // index into the queue tree
  uint32_t members = 0;       // wanted
  uint32_t restarts = 0;
  conf::TimePoint started{};
  conf::TimePoint stops_at{};
  conf::Duration done{};
  std::vector<MemberAt> leaving{};  // old places of members that are moving; held until they have
  std::optional<conf::TimePoint> idle_since{};
  conf::TimePoint checkpointed{};
  conf::TimePoint moved{};   // the last time
  int64_t device_milli = 0;  // wanted, all members
  std::vector<std::vector<ShapeId>>
      shapes;           // per role, in order of preference; empty: no node can ever take it
  Topology topology{};  // the job's, and required while it waits for what it prefers
  Job job;
};

// A random source of the job's own, which does not depend on its index and sequence: for what-ifs that must
// not change what the cycle draws.
Rng OwnRng(const Job& job);

// Jobs that run, by their array's name.
using RunningArrays = std::map<std::string, std::set<JobIndex>>;

class JobTable {
 public:
  explicit JobTable(ShapeTable& shapes) : shapes_(&shapes) {}

  JobIndex Add(Job job, uint32_t queue);
  void Erase(JobIndex index);
  // Whether the level that the job prefers is required for now; its signature follows.
  void RequireNearness(JobIndex index, bool required);

  JobEntry& operator[](JobIndex index) { return entries_[index]; }
  const JobEntry& operator[](JobIndex index) const { return entries_[index]; }
  // kNone: no job has this id.
  JobIndex Find(const std::string& id) const;
  JobIndex bound() const { return static_cast<JobIndex>(entries_.size()); }
  size_t size() const { return by_id_.size(); }
  uint32_t signatures() const { return static_cast<uint32_t>(signatures_.size()); }

  // When a running job is expected to end: at its estimate. A job that is late is expected to run on for
  // about as long as it is late already, so that one that lost a little time to a move is not taken for one
  // of twice the length.
  conf::TimePoint ExpectedEnd(JobIndex index, conf::TimePoint now, conf::Duration unknown_estimate) const;
  // How long a start now would run: the estimate less what earlier runs have done, plus the restart.
  conf::Duration ExpectedRun(JobIndex index, conf::Duration unknown_estimate) const;

 private:
  uint32_t SignatureOf(const JobEntry& entry);

  ShapeTable* shapes_;
  absl::flat_hash_map<std::string, uint32_t> signatures_;
  std::deque<JobEntry> entries_;
  std::vector<JobIndex> unused_;
  absl::flat_hash_map<std::string, JobIndex> by_id_;
  uint64_t next_sequence_ = 0;
};

}  // namespace scheduler
