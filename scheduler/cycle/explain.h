// Why a job waits, as findings that can be checked: what it needs, what is free where, which filter excludes
// how many nodes, which quota refuses it, whose reservation it would delay, and which jobs would make room by their
// ends, and when.
//
// Pure and read-only. The counts for each role are necessary conditions: each role is checked alone, so a job of
// several roles may wait although each of them fits alone. Expected times are as good as the estimates of running jobs.
// The running time is proportional to the nodes and to the jobs that must end; at most kMaxReleases are followed.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "conf/words.h"
#include "scheduler/cycle/reservation.h"
#include "scheduler/queues/order.h"
#include "scheduler/queues/queue_tree.h"
#include "scheduler/queues/run_history.h"
#include "scheduler/state/cluster_state.h"
#include "scheduler/state/job_table.h"
#include "scheduler/state/resource_counts.h"

namespace scheduler {

// One bound of one queue that the job would exceed. Devices in milli.
struct QuotaRefusal {
  std::string queue{};
  std::string bound{};  // "limit", "user-limit", "deserved", "lent"
  std::string kind{};   // device kind or "*"
  int64_t has = 0;
  int64_t asked = 0;
  int64_t most = 0;
  std::vector<uint32_t> counts{};  // indices of the queues whose jobs count towards it
  std::string user{};              // only this user's jobs count; empty: all
};

// A refusal of the queue tree, with the queues below the refusing queue. `user`: the user of the job. The verdict must
// not be kNone.
QuotaRefusal RefusalBy(const QueueTree& tree, const QuotaVerdict& verdict, const Cluster& cluster,
                       const std::string& user);

// The job's place among the jobs that may start, and the reasons for it.
struct OrderFinding {
  uint32_t ahead = 0;    // jobs that go before it
  uint32_t waiting = 0;  // jobs that wait, with this one
  std::vector<OrderPart> parts{};
  std::optional<RunEstimate> run{};  // where the order uses it, for work that has one
};

struct ExplainInput {
  const ClusterState& state;
  const ShapeTable& shapes;
  const JobTable& jobs;
  JobIndex job = kNone;
  conf::TimePoint now{};
  conf::Duration unknown_estimate{};
  std::vector<QuotaRefusal> quotas{};
  std::vector<std::string> unfinished{};        // of the jobs that it comes after
  std::span<const Reservation> reservations{};  // its own among them, if it has one
  JobIndex line_stopped_by = kNone;             // strict FIFO: the job that must start first
  std::optional<OrderFinding> order{};          // nothing: it is not in line
  const ResourceCounts* resources = nullptr;    // null: the cluster has none
};

enum class WaitCause : uint8_t {
  kNotPending,  // it runs, stops or is suspended
  kNeverFits,   // not even the empty cluster could hold it
  kDependency,  // jobs that it comes after have not ended
  kNotBefore,   // an advance reservation's start lies ahead
  kQuota,
  kResource,     // too little of a countable resource is free
  kCapacity,     // too little is free
  kTopology,     // enough is free, but not within one domain of the level that it requires
  kReservation,  // enough is free, but kept for jobs that go first
  kPinned,       // it can start on its own places alone, and one of them is not free
  kLine,         // strict FIFO: a job ahead of it has not started
  kNextCycle,    // nothing stands against it
};

struct Obstacle {
  std::string_view filter{};  // as placement/filters.h names them
  uint32_t nodes = 0;
};

struct RoleFinding {
  std::string role{};
  std::string each{};           // what one member takes, in words
  uint32_t wanted = 0;          // members that do not run yet
  uint32_t needed = 0;          // of those, without which the job does not start
  uint64_t fit_now = 0;         // members that would fit now, on all nodes
  uint64_t fit_unreserved = 0;  // of those, on nodes that are not kept for jobs that go first
  uint64_t fit_empty = 0;       // on the empty cluster with all its nodes healthy
  uint32_t nodes_with_room = 0;
  std::vector<Obstacle>
      obstacles{};  // numbers of nodes without room by the reason, in the order of the filters
};

struct KindFinding {
  std::string kind{};
  uint32_t free = 0;   // whole devices, on nodes that take work
  uint32_t total = 0;  // devices of all nodes
};

// The domain that comes closest to holding the job, of the required level, or of the preferred one while the job waits
// for it.
struct DomainFinding {
  std::string level{};
  std::string domain{};
  uint64_t fit = 0;                        // of the needed members
  uint64_t needed = 0;                     // of all roles
  bool holds_when_empty = false;           // some domain of the level would, were it empty
  std::optional<conf::TimePoint> until{};  // the level is preferred: from then on the job takes any place
};

struct ReservationFinding {
  std::string job{};
  conf::TimePoint start{};
  uint32_t nodes = 0;  // reserved nodes on which a member of this job would fit now
};

// The ends, in their order, after which there is room.
struct ReleaseFinding {
  std::vector<std::string> jobs{};  // the first kNamedJobs of them
  uint32_t count = 0;
  std::optional<conf::TimePoint> at{};  // nothing: not known, or not within kMaxReleases ends
  bool end_unknown = false;  // after these ends there is room, but not all of their times are known
};

struct QuotaFinding {
  QuotaRefusal refusal{};
  ReleaseFinding release{};
};

// A countable resource of which less is free than the job asks for.
struct ResourceFinding {
  ResourceShort lack{};
  std::vector<std::string> held_by{};  // the first kNamedJobs of the jobs that hold some
  ReleaseFinding release{};
};

inline constexpr uint32_t kMaxReleases = 4096;
inline constexpr size_t kNamedJobs = 16;

// The first place of a pinned job that it cannot have now.
struct PinnedFinding {
  std::string node{};
  std::vector<std::string>
      held_by{};  // jobs; none: the node or a device takes no work, or lacks cores or memory
};

struct Explanation {
  std::string job{};
  WaitCause cause = WaitCause::kNextCycle;  // the first of `causes`
  std::vector<WaitCause> causes{};          // all that hold
  Phase phase = Phase::kPending;
  conf::TimePoint as_of{};
  conf::TimePoint submitted{};
  std::vector<RoleFinding> roles{};
  std::vector<KindFinding> kinds{};  // that would do
  uint32_t nodes = 0;                // of the cluster
  std::optional<DomainFinding> domain{};
  std::optional<PinnedFinding> pinned{};
  std::vector<QuotaFinding> quotas{};
  std::vector<ResourceFinding> resources{};
  std::vector<std::string> unfinished{};
  std::optional<conf::TimePoint> not_before{};
  std::vector<ReservationFinding> reservations{};   // of others, that keep nodes from it
  std::optional<conf::TimePoint> reserved_start{};  // its own
  std::string line_stopped_by{};
  std::optional<OrderFinding> order{};      // nothing: it is not in line
  std::optional<ReleaseFinding> release{};  // of devices, when too little is free
};

Explanation Explain(const ExplainInput& input);

conf::Words<WaitCause> WordsOf(WaitCause);
std::string_view Name(WaitCause cause);

// "8 h100 or a100, 64 cores, 512 GiB"
std::string InWords(const Ask& ask);

}  // namespace scheduler
