// Finds the best node for one member, under a policy.
//
// Scores are remembered per shape and class of nodes: a decision computes only what has changed since the
// last one for the same shape, and looks at classes instead of nodes. The same state, policy, mix and random
// source give the same choice, whatever was asked before. One thread; must not outlive the state.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "scheduler/placement/node_set.h"
#include "scheduler/placement/placement_policy.h"
#include "scheduler/rng.h"
#include "scheduler/state/cluster_state.h"

namespace scheduler {

// Limits the nodes that may be chosen, in addition to the shape.
struct Where {
  DomainId under = kNone;           // only below this fabric domain
  const NodeSet* except = nullptr;  // none of these
  JobIndex apart_from = kNone;      // none that holds a member of this job

  bool anywhere() const { return under == kNone && except == nullptr && apart_from == kNone; }
};

// A pseudo-random rank of the node in this draw; breaks ties.
uint64_t Lot(uint64_t draw, NodeId node);

class Placer {
 public:
  Placer(const ClusterState& state, const ShapeTable& shapes, const PlacementPolicy& policy);

  // The mix that policies weigh; scores for another mix are forgotten.
  void SetMix(DemandMix mix);
  const DemandMix& mix() const { return mix_; }

  // Draws another order of the nodes, for policies that break ties by one.
  void SetTieOrder(uint64_t draw) { tie_order_ = draw; }

  const PlacementPolicy& policy() const { return *policy_; }

  // The best place for the member, by the first alternative that fits anywhere; absent: none fits.
  std::optional<Holding> Choose(std::span<const ShapeId> alternatives, const Where& where, Rng& rng);

  // The holding of the member on that node; absent where it does not fit.
  std::optional<Holding> On(NodeId node, std::span<const ShapeId> alternatives);

  // How many members of the shape fit on the node.
  uint32_t SlotsOn(NodeId node, ShapeId shape);

  // How good a node is for the shape, greater is better; only where it fits.
  struct Suitability {
    int16_t preference = 0;  // how many of the ask's preferences hold
    double score = 0;        // the policy's
    auto operator<=>(const Suitability&) const = default;
  };
  Suitability SuitabilityOf(NodeId node, ShapeId shape);

  // How good a leaf group is by the policy's tie-break, greater is better.
  int64_t LeafRank(DomainId leaf) const;

  const ShapeTable& shapes() const { return *shapes_; }

 private:
  struct OfShape {              // by class id; valid where `generation` is the class's
    std::vector<double> score;  // minus infinity: does not fit
    std::vector<uint32_t> generation;
    std::vector<uint32_t> slots;
    std::vector<uint32_t> slots_generation;
    std::vector<int16_t> preference;  // by fixed class: -1 not allowed, else how many preferences hold
  };

  OfShape& Of(ShapeId shape);
  double ScoreOf(OfShape& known, ShapeId shape, ClassId id);
  double Compute(const OfShape& known, ShapeId shape, ClassId id) const;
  std::optional<NodeId> Best(ShapeId shape, const Where& where, Rng& rng);
  std::optional<NodeId> BestAnywhere(OfShape& known, ShapeId shape, Rng& rng);
  std::optional<NodeId> BestAmong(OfShape& known, ShapeId shape, const Where& where, Rng& rng);
  NodeId BreakTie(Rng& rng);
  NodeId PickOf(const std::vector<NodeId>& nodes, Rng& rng) const;
  Holding HoldingOn(NodeId node, ShapeId shape, uint64_t draw) const;
  bool PowerAllows(NodeId node, ShapeId shape) const;

  const ClusterState* state_;
  const ShapeTable* shapes_;
  const PlacementPolicy* policy_;
  DemandMix mix_;
  PolicyTables tables_;  // for the mix
  uint64_t tie_order_ = 0;
  std::vector<OfShape> known_;
  std::vector<ClassId> tied_;       // scratch
  std::vector<bool> is_tied_;       // scratch, by class
  std::vector<NodeId> candidates_;  // scratch
};

}  // namespace scheduler
