// The availability of whole devices over time, as one job sees it: the moments at which it may fit. It saves
// a reservation most of its trial placements.
//
// The profile goes through the moments at which running jobs or the reservations of others end, and counts the members
// that the free devices of each node would hold. It ignores CPU, memory, labels and power, and assumes that shares and
// partitions fit anywhere. So between two moments that it returns the job does not fit; at such a moment it may fit,
// which a placement must try.
//
// It reads the state between calls: jobs that end by the moment that Next returned may have been evicted, and nothing
// else may have changed. One thread; must not outlive the objects that it was made from.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "scheduler/cycle/reservation.h"
#include "scheduler/placement/node_set.h"
#include "scheduler/state/cluster_state.h"
#include "scheduler/state/job_table.h"

namespace scheduler {

class AvailabilityProfile {
 public:
  struct Query {
    const JobEntry& entry;
    conf::Duration run{};
    conf::TimePoint from{};
    const NodeSet* keep_off = nullptr;  // nodes that the job never gets; may be null
  };
  AvailabilityProfile(const ClusterState& state, const ShapeTable& shapes, const Query& query,
                      const std::vector<Release>& releases, const std::vector<Reservation>& others);

  // The next moment at which the job may fit; absent: there is none before `before`.
  std::optional<conf::TimePoint> Next(conf::TimePoint before = conf::TimePoint::max());

 private:
  struct Role {
    uint32_t least = 0;
    std::vector<uint16_t> devices{};  // of a member, by node type; 0: the type does not have them
  };
  struct OnNode {
    uint32_t group = 0;  // nodes below one domain that must hold the whole job
    uint16_t free = 0;   // whole devices
    uint16_t most = 0;
    uint16_t closed = 0;  // number of reservations that close it; at least 1 where it is never open
  };

  void ReadRoles(const ShapeTable& shapes, const JobEntry& entry);
  void ReadNodes(const Query& query);
  bool Advance();
  void UpdateClosedNodes();
  void Free(JobIndex job);
  void Count(NodeId node, bool adds);

  const ClusterState* state_;
  const std::vector<Release>* releases_;
  const std::vector<Reservation>* others_;
  conf::Duration run_;
  conf::TimePoint at_;
  bool begun_ = false;
  size_t next_release_ = 0;
  size_t next_end_ = 0;
  std::vector<conf::TimePoint> ends_;  // of others' reservations, ascending
  std::vector<bool> closes_;  // by reservation of others: whether it closes its nodes for a start at at_
  conf::TimePoint changes_at_ = conf::TimePoint::min();  // until then closes_ is right
  bool one_per_node_;
  std::vector<Role> roles_;  // only those that ask for whole devices
  std::vector<OnNode> nodes_;
  std::vector<uint32_t> slots_;    // by group and role
  std::vector<uint32_t> lacking_;  // by group: roles with too few slots
  uint32_t open_ = 0;              // groups in which every role has enough slots
};

}  // namespace scheduler
