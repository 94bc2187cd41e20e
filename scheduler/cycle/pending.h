// The waiting jobs, in groups, so that a cycle touches few of them.
//
// The jobs of a group have the same queue, user, priority, ask and array, and the same run class where run times are
// learned. So when one of them does not fit, none does, and the whole group is skipped. Inside a group the jobs' own
// scores decide the order. One thread.
#pragma once

#include <absl/container/btree_map.h>
#include <absl/container/btree_set.h>
#include <absl/container/flat_hash_map.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "conf/time.h"
#include "scheduler/learned_runs.h"
#include "scheduler/state/job_table.h"

namespace scheduler {

using GroupId = uint32_t;
// Within a group: its own score, negated, then its sequence; the least goes first.
using Place = std::pair<double, uint64_t>;

struct PendingJob {
  JobIndex job = kNone;
  conf::Duration run{};  // expected, from a start
};

struct PendingGroup {
  uint32_t queue = 0;
  std::string user;
  int32_t priority = 0;
  uint32_t signature = 0;
  std::string array{};
  std::optional<RunClass> run_class{};
  absl::btree_map<Place, PendingJob> jobs;
  absl::btree_set<std::pair<conf::Duration, uint64_t>> by_run;  // (expected run, sequence)
  uint32_t occupied_at = 0;                                     // its place among the groups with jobs
};

class Pending {
 public:
  // `run`: how long the job is expected to run from a start; `score`: its own part of its rank (order.h).
  // `run_class`: nothing where run times are not learned.
  void Add(JobIndex job, const JobEntry& entry, conf::Duration run, double score,
           std::optional<RunClass> run_class);
  void Remove(const JobEntry& entry);

  // Of a job that is pending.
  GroupId GroupOf(const JobEntry& entry) const { return by_sequence_.at(entry.sequence).group; }
  size_t size() const { return size_; }
  GroupId groups() const { return static_cast<GroupId>(groups_.size()); }  // some are empty
  // The groups with jobs, in no order that may decide anything.
  std::span<const GroupId> occupied() const { return occupied_; }
  const PendingGroup& operator[](GroupId id) const { return groups_[id]; }

 private:
  using Key = std::tuple<uint32_t, std::string, int32_t, uint32_t, std::string, RunClass>;

  std::vector<PendingGroup> groups_;
  std::vector<GroupId> occupied_;
  absl::flat_hash_map<Key, GroupId> by_key_;
  struct Spot {
    GroupId group = 0;
    conf::Duration run{};
    double score = 0;
  };
  absl::flat_hash_map<uint64_t, Spot> by_sequence_;
  size_t size_ = 0;
};

}  // namespace scheduler
