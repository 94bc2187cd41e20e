#include "scheduler/cycle/explain_slots.h"

#include <algorithm>
#include <array>
#include <optional>

#include "scheduler/placement/filters.h"

namespace scheduler {
namespace {

constexpr std::array<std::string_view, kFilters> kFilterOrder = {"kind",   "labels",    "health",  "cpu",
                                                                 "memory", "isolation", "devices", "power"};
constexpr uint64_t kMaxSlots = 1'000'000;  // of a member that asks for next to nothing

}  // namespace

size_t FilterOrder(std::string_view filter) {
  return static_cast<size_t>(std::ranges::find(kFilterOrder, filter) - kFilterOrder.begin());
}

std::string_view FilterAt(size_t order) {
  return kFilterOrder[order];
}

SlotBoard::SlotBoard(const ClusterState& state, const ShapeTable& table,
                     const std::vector<std::vector<ShapeId>>& shapes, bool apart)
    : state_(&state),
      table_(&table),
      shapes_(&shapes),
      apart_(apart),
      slots_(shapes.size()),
      obstacles_(shapes.size()),
      totals_(shapes.size()) {
  // Nodes of one class are checked once, unless power is scarce: each node has its own power headroom.
  const NodeClasses& classes = state.classes();
  const size_t nodes = state.cluster().nodes.size();
  struct Seen {
    bool known = false;
    uint32_t slots = 0;
    std::string_view obstacle;
  };
  for (size_t role = 0; role < shapes.size(); ++role) {
    std::vector<Seen> seen(classes.bound());
    slots_[role].resize(nodes);
    obstacles_[role].resize(nodes);
    for (NodeId node = 0; node < nodes; ++node) {
      Seen& of_class = seen[classes.of(node)];
      if (!of_class.known || state.has_power_budgets()) {
        of_class = {true, 0, FilterAt(0)};
        for (const ShapeId id : shapes[role]) {
          const std::string_view obstacle = FirstObstacle(table[id], state, node);
          const bool nearer = obstacle.empty() || FilterOrder(obstacle) > FilterOrder(of_class.obstacle);
          if (!of_class.obstacle.empty() && nearer) of_class.obstacle = obstacle;
          if (!obstacle.empty()) continue;
          of_class.slots =
              std::max(of_class.slots, Cap(Slots(state.node(node), table[id], state.view_of(node))));
        }
      }
      slots_[role][node] = of_class.slots;
      obstacles_[role][node] = of_class.obstacle;
      totals_[role] += of_class.slots;
    }
  }
}

uint32_t SlotBoard::Cap(uint64_t slots) const {
  return static_cast<uint32_t>(std::min<uint64_t>(slots, apart_ ? 1 : kMaxSlots));
}

std::vector<std::vector<uint64_t>> SlotBoard::ByDomain() const {
  const Cluster& cluster = state_->cluster();
  std::vector<std::vector<uint64_t>> sums(slots_.size(),
                                          std::vector<uint64_t>(cluster.fabric.domains.size()));
  for (size_t role = 0; role < slots_.size(); ++role) {
    for (NodeId node = 0; node < cluster.nodes.size(); ++node) {
      if (slots_[role][node] == 0) continue;
      for (DomainId d = cluster.nodes[node].domain; d != kNone; d = cluster.fabric.domains[d].parent) {
        sums[role][d] += slots_[role][node];
      }
    }
  }
  return sums;
}

uint32_t SlotBoard::SlotsOf(size_t role, const FixedClass& fixed, const TypeView& view,
                            const NodeState& now) const {
  uint32_t slots = 0;
  for (const ShapeId id : (*shapes_)[role]) {
    const Shape& shape = (*table_)[id];
    if (!KindAllows(shape, fixed, view) || !LabelsAllow(shape, fixed)) continue;
    slots = std::max(slots, Cap(Slots(now, shape, view)));
  }
  return slots;
}

SlotBoard SlotBoard::WhenEmpty(const SlotBoard& of) {
  SlotBoard board = of;
  const Cluster& cluster = of.state_->cluster();
  for (size_t role = 0; role < of.slots_.size(); ++role) {
    std::vector<std::optional<uint32_t>> of_class(of.state_->fixed_count());
    board.totals_[role] = 0;
    for (NodeId node = 0; node < cluster.nodes.size(); ++node) {
      const StaticId id = of.state_->classes()[of.state_->classes().of(node)].fixed;
      std::optional<uint32_t>& slots = of_class[id];
      if (!slots) {
        slots = of.SlotsOf(role, of.state_->fixed(id), of.state_->view_of(node), EmptyNode(cluster, node));
      }
      board.slots_[role][node] = *slots;
      board.totals_[role] += *slots;
    }
  }
  return board;
}

bool SlotBoard::Refresh(NodeId node, const NodeState& now) {
  const FixedClass& fixed = state_->fixed(state_->classes()[state_->classes().of(node)].fixed);
  if (!TakesWork(fixed)) return false;
  bool more = false;
  for (size_t role = 0; role < slots_.size(); ++role) {
    const uint32_t slots = SlotsOf(role, fixed, state_->view_of(node), now);
    if (slots <= slots_[role][node]) continue;
    totals_[role] += slots - slots_[role][node];
    slots_[role][node] = slots;
    more = true;
  }
  return more;
}

std::vector<NodeId> SlotBoard::Release(JobIndex job) {
  std::vector<NodeId> touched;
  for (const MemberId id : state_->of(job)) {
    const Holding& holding = state_->member(id).holding;
    const auto [at, added] = changed_.try_emplace(holding.node, state_->node(holding.node));
    Give(at->second, holding, state_->view_of(holding.node));
    touched.push_back(holding.node);
  }
  std::ranges::sort(touched);
  touched.erase(std::ranges::unique(touched).begin(), touched.end());
  std::erase_if(touched, [&](NodeId node) { return !Refresh(node, changed_.at(node)); });
  return touched;
}

}  // namespace scheduler
