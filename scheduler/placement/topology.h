// How many members of one role each node and each fabric domain can take, and on which nodes of a domain a number of
// them is placed.
//
// Counted over the tree once per gang and role, in flat arrays that are kept between calls. Power budgets
// bound the counts: exactly for whole devices of one kind, otherwise as an upper bound, since a device that
// is shared or partitioned draws its watts once. Must not outlive the state; one thread.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "scheduler/placement/placer.h"
#include "scheduler/state/cluster_state.h"

namespace scheduler {

struct NodeShare {
  NodeId node = 0;
  uint32_t members = 0;
  ShapeId shape = 0;
};

// The lowest domain that holds both.
DomainId CommonDomain(const Fabric& fabric, DomainId a, DomainId b);

class SlotTree {
 public:
  explicit SlotTree(const ClusterState& state) : state_(&state) {}

  struct Query {
    std::span<const ShapeId> alternatives{};  // a node takes the first of them that it has room for
    const NodeSet* except = nullptr;
    bool one_per_node = false;
  };
  // Counts below `under`; counts elsewhere stay unchanged.
  void Count(Placer& placer, const Query& query, DomainId under);

  uint32_t on(NodeId node) const { return on_[node]; }
  uint32_t below(DomainId domain) const { return below_[domain]; }
  ShapeId shape_at(NodeId node) const { return shape_[node]; }  // where on(node) > 0

  // Appends the nodes for `members` members below a domain with enough slots: on the way down the fewest
  // children, largest first and the last one the tightest; on the lowest level the nodes in the policy's
  // order, each filled before the next.
  void Divide(Placer& placer, DomainId domain, uint32_t members, std::vector<NodeShare>& shares);

 private:
  struct Counted {
    uint64_t slots = 0;
    int64_t milliwatts = INT64_MAX;  // the least that one member adds; 0: no bound
  };
  struct Child {
    DomainId domain = kNone;  // kNone: the nodes directly below the parent
    uint32_t slots = 0;
    int64_t free_milli = 0;
  };
  struct Ranked {
    NodeId node = 0;
    ShapeId shape = 0;
    uint32_t alternative = 0;
    Placer::Suitability suits;
  };

  bool HasNothing(const Placer& placer, const Query& query, DomainId domain) const;
  void Clear(DomainId domain);
  Counted CountBelow(Placer& placer, const Query& query, DomainId domain, int64_t headroom);
  Counted CountOn(Placer& placer, const Query& query, NodeId node);
  int64_t HeadroomOf(DomainId domain) const;
  void Fill(Placer& placer, std::span<const NodeId> nodes, uint32_t members, std::vector<NodeShare>& shares);

  const ClusterState* state_;
  std::vector<uint32_t> on_;
  std::vector<ShapeId> shape_;
  std::vector<uint8_t> alternative_;
  std::vector<uint32_t> below_;
  std::vector<uint32_t> direct_;  // of `below_`, on the nodes directly below the domain
  std::vector<Child> children_;   // scratch, a stack of one part per level
  std::vector<Ranked> ranked_;    // scratch
};

}  // namespace scheduler
