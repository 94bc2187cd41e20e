#include "scheduler/placement/placer.h"

#include <algorithm>
#include <cassert>
#include <limits>
#include <tuple>
#include <utility>

#include "scheduler/placement/filters.h"

namespace scheduler {
namespace {

constexpr double kNever = -std::numeric_limits<double>::infinity();
constexpr uint32_t kUnknown = 0;  // no class has this generation

}  // namespace

uint64_t Lot(uint64_t draw, NodeId node) {
  uint64_t z = draw + (node + uint64_t{1}) * 0x9e3779b97f4a7c15;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

Placer::Placer(const ClusterState& state, const ShapeTable& shapes, const PlacementPolicy& policy)
    : state_(&state), shapes_(&shapes), policy_(&policy), tables_(policy.prepare(state.cluster(), mix_)) {}

void Placer::SetMix(DemandMix mix) {
  if (mix.version == mix_.version) return;
  mix_ = std::move(mix);
  tables_ = policy_->prepare(state_->cluster(), mix_);
  for (OfShape& known : known_) std::ranges::fill(known.generation, kUnknown);
}

Placer::OfShape& Placer::Of(ShapeId shape) {
  if (shape >= known_.size()) known_.resize(shapes_->size());
  OfShape& known = known_[shape];
  const uint32_t classes = state_->classes().bound();
  if (known.score.size() < classes) {
    known.score.resize(classes, kNever);
    known.generation.resize(classes, kUnknown);
    known.slots.resize(classes, 0);
    known.slots_generation.resize(classes, kUnknown);
  }
  for (auto id = static_cast<StaticId>(known.preference.size()); id < state_->fixed_count(); ++id) {
    const FixedClass& fixed = state_->fixed(id);
    const Shape& s = (*shapes_)[shape];
    const bool allowed =
        TakesWork(fixed) && KindAllows(s, fixed, state_->view(fixed.type)) && LabelsAllow(s, fixed);
    known.preference.push_back(allowed ? PreferencesHeld(s, fixed) : int16_t{-1});
  }
  return known;
}

double Placer::Compute(const OfShape& known, ShapeId shape, ClassId id) const {
  const NodeClass& nodes = state_->classes()[id];
  if (known.preference[nodes.fixed] < 0) return kNever;
  const TypeView& view = state_->view(nodes.type);
  const Shape& s = (*shapes_)[shape];
  if (!HasRoom(s, nodes.state, view)) return kNever;
  return policy_->score({s, nodes.state, view, state_->cluster(), mix_, tables_});
}

double Placer::ScoreOf(OfShape& known, ShapeId shape, ClassId id) {
  const uint32_t generation = state_->classes().generation(id);
  if (known.generation[id] != generation) {
    known.score[id] = Compute(known, shape, id);
    known.generation[id] = generation;
  }
  return known.score[id];
}

uint32_t Placer::SlotsOn(NodeId node, ShapeId shape) {
  const NodeClasses& classes = state_->classes();
  const ClassId id = classes.of(node);
  OfShape& known = Of(shape);
  if (known.slots_generation[id] != classes.generation(id)) {
    const NodeClass& nodes = classes[id];
    known.slots[id] = known.preference[nodes.fixed] < 0
                          ? 0
                          : Slots(nodes.state, (*shapes_)[shape], state_->view(nodes.type));
    known.slots_generation[id] = classes.generation(id);
  }
  return known.slots[id];
}

Placer::Suitability Placer::SuitabilityOf(NodeId node, ShapeId shape) {
  const ClassId id = state_->classes().of(node);
  OfShape& known = Of(shape);
  return {known.preference[state_->classes()[id].fixed], ScoreOf(known, shape, id)};
}

bool Placer::PowerAllows(NodeId node, ShapeId shape) const {
  if (!state_->has_power_budgets()) return true;
  return WattsAdded((*shapes_)[shape], state_->view_of(node), *state_) <= state_->power_headroom(node);
}

std::optional<Holding> Placer::Choose(std::span<const ShapeId> alternatives, const Where& where, Rng& rng) {
  for (const ShapeId shape : alternatives) {
    if (const std::optional<NodeId> node = Best(shape, where, rng)) {
      const bool by_lot = policy_->tie_break == TieBreak::kRandom;
      return HoldingOn(*node, shape, by_lot ? rng.Next() : 0);
    }
  }
  return std::nullopt;
}

std::optional<Holding> Placer::On(NodeId node, std::span<const ShapeId> alternatives) {
  for (const ShapeId shape : alternatives) {
    if (ScoreOf(Of(shape), shape, state_->classes().of(node)) != kNever && PowerAllows(node, shape)) {
      return HoldingOn(node, shape, Lot(tie_order_, node) + state_->node(node).members);
    }
  }
  return std::nullopt;
}

std::optional<NodeId> Placer::Best(ShapeId shape, const Where& where, Rng& rng) {
  OfShape& known = Of(shape);
  if (where.anywhere() && !state_->has_power_budgets()) return BestAnywhere(known, shape, rng);
  return BestAmong(known, shape, where, rng);
}

std::optional<NodeId> Placer::BestAnywhere(OfShape& known, ShapeId shape, Rng& rng) {
  const NodeClasses& classes = state_->classes();
  const bool prefers = !(*shapes_)[shape].prefer.empty();
  std::pair<int16_t, double> best = {-1, kNever};
  tied_.clear();
  for (const ClassId id : classes.live()) {
    const double score = ScoreOf(known, shape, id);
    if (score < best.second && !prefers) continue;
    if (score == kNever) continue;
    const std::pair<int16_t, double> rank = {prefers ? known.preference[classes[id].fixed] : int16_t{0},
                                             score};
    if (rank < best) continue;
    if (rank > best) tied_.clear();
    best = rank;
    tied_.push_back(id);
  }
  if (tied_.empty()) return std::nullopt;
  return BreakTie(rng);
}

std::optional<NodeId> Placer::BestAmong(OfShape& known, ShapeId shape, const Where& where, Rng& rng) {
  const NodeClasses& classes = state_->classes();
  Suitability best{-1, kNever};
  candidates_.clear();
  const auto consider = [&](NodeId node) {
    const ClassId id = classes.of(node);
    const double score = ScoreOf(known, shape, id);
    if (score == kNever) return;
    if (where.except != nullptr && where.except->Has(node)) return;
    const Suitability suits{known.preference[classes[id].fixed], score};
    if (suits < best) return;
    if (where.apart_from != kNone) {
      for (const MemberId member : state_->of(where.apart_from)) {
        if (state_->member(member).holding.node == node) return;
      }
    }
    if (!PowerAllows(node, shape)) return;
    if (suits > best) candidates_.clear();
    best = suits;
    candidates_.push_back(node);
  };
  if (where.under != kNone) {
    for (const NodeId node : state_->nodes_under(where.under)) consider(node);
  } else {
    for (NodeId node = 0; node < state_->cluster().nodes.size(); ++node) consider(node);
  }
  if (candidates_.empty()) return std::nullopt;
  return PickOf(candidates_, rng);
}

int64_t Placer::LeafRank(DomainId leaf) const {
  const int64_t free = state_->counters(leaf).free_milli;
  switch (policy_->tie_break) {
    case TieBreak::kFullestLeaf:
      return -free;
    case TieBreak::kEmptiestLeaf:
      return free;
    case TieBreak::kRandom:
    case TieBreak::kFixedOrder:
      break;
  }
  return 0;
}

NodeId Placer::PickOf(const std::vector<NodeId>& nodes, Rng& rng) const {
  const uint64_t draw = policy_->tie_break == TieBreak::kFixedOrder ? tie_order_ : rng.Next();
  const auto leaf_free = [&](NodeId node) { return -LeafRank(state_->cluster().nodes[node].domain); };
  NodeId best = nodes.front();
  // Among equally suitable devices, the ones that draw less.
  const auto watts = [&](NodeId node) {
    const NodeType& type = state_->cluster().type_of(node);
    if (type.devices == 0) return 0.0;
    const KindWatts of = state_->kind_watts(type.kind);
    return of.busy - of.idle;
  };
  std::tuple<double, int64_t, uint64_t> best_rank = {watts(best), leaf_free(best), Lot(draw, best)};
  for (const NodeId node : nodes) {
    const std::tuple<double, int64_t> first = {watts(node), leaf_free(node)};
    if (first > std::tuple(std::get<0>(best_rank), std::get<1>(best_rank))) continue;
    const std::tuple<double, int64_t, uint64_t> rank = {std::get<0>(first), std::get<1>(first),
                                                        Lot(draw, node)};
    if (rank < best_rank) {
      best = node;
      best_rank = rank;
    }
  }
  return best;
}

NodeId Placer::BreakTie(Rng& rng) {
  const NodeClasses& classes = state_->classes();
  if (tied_.size() == 1) {
    const std::vector<NodeId>& nodes = classes[tied_.front()].nodes;
    if (policy_->tie_break == TieBreak::kRandom) return nodes[rng.Uniform(nodes.size())];
    return PickOf(nodes, rng);
  }
  candidates_.clear();
  for (const ClassId id : tied_) {
    candidates_.insert(candidates_.end(), classes[id].nodes.begin(), classes[id].nodes.end());
  }
  return PickOf(candidates_, rng);
}

Holding Placer::HoldingOn(NodeId node, ShapeId shape, uint64_t draw) const {
  const Shape& s = (*shapes_)[shape];
  const TypeView& view = state_->view_of(node);
  const DeviceChoice choice =
      policy_->devices({s, state_->node(node), view, state_->cluster(), mix_, tables_, draw});
  Holding holding{.node = node,
                  .devices = choice.devices,
                  .profile = ProfileOn(s, view),
                  .start = choice.start,
                  .isolation = s.isolation,
                  .tenant = s.tenant,
                  .cpu_milli = s.cpu_milli,
                  .memory_mib = s.memory_mib,
                  .device_mib = s.device_mib};
  if (choice.devices != 0 && holding.profile == 0) holding.milli = s.count > 0 ? kWholeDevice : s.milli;
  return holding;
}

}  // namespace scheduler
