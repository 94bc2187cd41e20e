// How many members of each role of a job fit on each node and in each fabric domain, now and as jobs end.
// Inside explain only.
#pragma once

#include <absl/container/flat_hash_map.h>

#include <cstdint>
#include <string_view>
#include <vector>

#include "scheduler/state/cluster_state.h"
#include "scheduler/state/job_table.h"

namespace scheduler {

class SlotBoard {
 public:
  // `apart`: counts at most one member for each node. `shapes`: those of the roles, in order of preference.
  SlotBoard(const ClusterState& state, const ShapeTable& table,
            const std::vector<std::vector<ShapeId>>& shapes, bool apart);

  uint64_t total(size_t role) const { return totals_[role]; }
  uint32_t on(size_t role, NodeId node) const { return slots_[role][node]; }
  // The filter that excludes the role's member from the node; with several alternatives, the filter of the alternative
  // that passes most of them. Empty: none.
  std::string_view obstacle(size_t role, NodeId node) const { return obstacles_[role][node]; }

  // The same for an empty cluster all of whose nodes are healthy.
  static SlotBoard WhenEmpty(const SlotBoard& of);

  // Sums per role and domain.
  std::vector<std::vector<uint64_t>> ByDomain() const;

  // Takes the job's members off their nodes. Returns the nodes on which more fits than before. Ignores power; a node
  // that is still shared keeps the strictest isolation of all members that were on it.
  std::vector<NodeId> Release(JobIndex job);

 private:
  uint32_t Cap(uint64_t slots) const;
  uint32_t SlotsOf(size_t role, const FixedClass& fixed, const TypeView& view, const NodeState& now) const;
  bool Refresh(NodeId node, const NodeState& now);

  const ClusterState* state_;
  const ShapeTable* table_;
  const std::vector<std::vector<ShapeId>>* shapes_;
  bool apart_;
  std::vector<std::vector<uint32_t>> slots_;
  std::vector<std::vector<std::string_view>> obstacles_;
  std::vector<uint64_t> totals_;
  absl::flat_hash_map<NodeId, NodeState> changed_;  // looked up, never gone through
};

// The place of a filter in the order in which they are asked.
size_t FilterOrder(std::string_view filter);
inline constexpr size_t kFilters = 8;
std::string_view FilterAt(size_t order);

}  // namespace scheduler
