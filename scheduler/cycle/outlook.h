// When a job may fit at the earliest, by counting whole devices: what spares a reservation most of its
// trials.
//
// Walks the moments from which more is possible, as running jobs end and what is reserved for others does,
// and keeps count of the members that the free devices of each node would hold. CPU, memory, labels and power
// are not looked at, and shares and partitions have room anywhere. So where it says no, the job does not fit;
// where it says maybe, that has to be tried.
//
// Looks at the state as it goes: what ends by the moment that Next gave may have been evicted, and nothing
// else changed. One thread; must not outlive what it was made from.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "scheduler/cycle/backfill.h"
#include "scheduler/cycle/job_table.h"
#include "scheduler/placement/placer.h"
#include "scheduler/state/cluster_state.h"

namespace scheduler {

class Outlook {
 public:
  struct Ask {
    const JobEntry& entry;
    conf::Duration run{};
    conf::TimePoint from{};
    const NodeSet* zone = nullptr;  // nodes that it keeps off at all times; may be null
  };
  Outlook(const ClusterState& state, const ShapeTable& shapes, const Ask& ask,
          const std::vector<Release>& releases, const std::vector<Reservation>& others);

  // The next moment at which it may fit; nothing: there is none any more before `before`.
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
    uint16_t closed = 0;  // by so many reservations, or for good
  };

  void ReadRoles(const ShapeTable& shapes, const JobEntry& entry);
  void ReadNodes(const Ask& ask);
  bool GoOn();
  void CloseWhatIsReserved();
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
  std::vector<bool> closes_;           // which of others' reservations do, for a start at at_
  conf::TimePoint changes_at_ = conf::TimePoint::min();  // that is right until then
  bool one_per_node_;
  std::vector<Role> roles_;  // those that ask for whole devices
  std::vector<OnNode> nodes_;
  std::vector<uint32_t> slots_;    // by group and role
  std::vector<uint32_t> lacking_;  // by group: roles that have too few slots
  uint32_t open_ = 0;              // groups that lack nothing
};

}  // namespace scheduler
