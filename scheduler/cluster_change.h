// ClusterChange: from the planner's cluster to another one, in which nodes have joined, left or changed.
//
// Pure. Held devices stay held: a node with members is in the new cluster even if it has left, and has at least the
// devices, CPU and memory that its members hold. Nodes are numbered by their names, so that the same nodes make the
// same cluster, in whatever order they joined.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "scheduler/holding.h"
#include "scheduler/model.h"
#include "scheduler/snapshot.h"

namespace scheduler {

// What members hold on a node.
struct NodeUse {
  uint32_t devices = 0;  // bit d
  int64_t cpu_milli = 0;
  int64_t memory_mib = 0;
};
using NodeUses = std::map<NodeId, NodeUse>;
void AddUse(NodeUses& uses, const Holding& holding);

struct ClusterChange {
  Cluster cluster{};             // the new one
  std::vector<NodeId> places{};  // by the node's id before: its id now; kNone: it has left
  // Names.
  std::vector<std::string> joined{};
  std::vector<std::string> left{};
  std::vector<std::string> changed{};    // their devices, size, labels or place in the fabric
  std::vector<std::string> held_back{};  // not yet as they were found, because of what is held there

  bool any() const { return !joined.empty() || !left.empty() || !changed.empty(); }
};

// `uses` are of nodes of `before`.
ClusterChange ChangeCluster(const Cluster& before, const Cluster& found, const NodeUses& uses);

// Applies the change to a snapshot of the cluster before. Reservations are dropped, since the next cycle makes them
// again; so is learned demand that names devices by numbers that have changed.
void ApplyTo(Snapshot& snapshot, const ClusterChange& change);

}  // namespace scheduler
