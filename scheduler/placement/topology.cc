#include "scheduler/placement/topology.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "scheduler/placement/filters.h"

namespace scheduler {
namespace {

constexpr int64_t kUnbounded = std::numeric_limits<int64_t>::max();

uint32_t Clamp(uint64_t slots) {
  return static_cast<uint32_t>(std::min<uint64_t>(slots, std::numeric_limits<uint32_t>::max()));
}

}  // namespace

DomainId CommonDomain(const Fabric& fabric, DomainId a, DomainId b) {
  while (a != b && a != kNone && b != kNone) {
    const uint8_t level_a = fabric.domains[a].level;
    const uint8_t level_b = fabric.domains[b].level;
    if (level_a <= level_b) a = fabric.domains[a].parent;
    if (level_b <= level_a) b = fabric.domains[b].parent;
  }
  return a == b ? a : kNone;
}

int64_t SlotTree::HeadroomOf(DomainId domain) const {
  const double budget = state_->cluster().fabric.domains[domain].power_budget_watts;
  if (budget <= 0) return kUnbounded;
  return std::llround(budget * 1000) - state_->counters(domain).milliwatts;
}

void SlotTree::Count(Placer& placer, const Query& query, DomainId under) {
  const Cluster& cluster = state_->cluster();
  on_.resize(cluster.nodes.size());
  shape_.resize(cluster.nodes.size());
  alternative_.resize(cluster.nodes.size());
  below_.resize(cluster.fabric.domains.size());
  direct_.resize(cluster.fabric.domains.size());
  int64_t headroom = kUnbounded;
  if (state_->has_power_budgets()) {
    for (DomainId d = under; d != kNone; d = cluster.fabric.domains[d].parent) {
      headroom = std::min(headroom, HeadroomOf(d));
    }
  }
  CountBelow(placer, query, under, headroom);
}

// Whether, by counters alone, there are too few whole devices for one member of any alternative.
bool SlotTree::HasNothing(const Placer& placer, const Query& query, DomainId domain) const {
  const uint32_t whole = state_->counters(domain).whole_devices;
  return std::ranges::all_of(query.alternatives,
                             [&](ShapeId id) { return placer.shapes()[id].count > whole; });
}

void SlotTree::Clear(DomainId domain) {
  for (const NodeId node : state_->nodes_directly_under(domain)) on_[node] = 0;
  direct_[domain] = below_[domain] = 0;
  for (const DomainId child : state_->children(domain)) Clear(child);
}

SlotTree::Counted SlotTree::CountBelow(Placer& placer, const Query& query, DomainId domain,
                                       int64_t headroom) {
  if (HasNothing(placer, query, domain)) {
    Clear(domain);
    return {};
  }
  if (state_->has_power_budgets()) headroom = std::min(headroom, HeadroomOf(domain));
  const auto bounded = [&](Counted counted) {
    if (headroom == kUnbounded || counted.slots == 0 || counted.milliwatts == 0) return counted.slots;
    return std::min(counted.slots,
                    static_cast<uint64_t>(std::max<int64_t>(headroom, 0) / counted.milliwatts));
  };
  Counted direct;
  for (const NodeId node : state_->nodes_directly_under(domain)) {
    const Counted on = CountOn(placer, query, node);
    direct.slots += on.slots;
    direct.milliwatts = std::min(direct.milliwatts, on.milliwatts);
  }
  direct_[domain] = Clamp(bounded(direct));
  Counted all{direct_[domain], direct.milliwatts};
  for (const DomainId child : state_->children(domain)) {
    const Counted below = CountBelow(placer, query, child, headroom);
    all.slots += below.slots;
    all.milliwatts = std::min(all.milliwatts, below.milliwatts);
  }
  all.slots = bounded(all);
  below_[domain] = Clamp(all.slots);
  return all;
}

SlotTree::Counted SlotTree::CountOn(Placer& placer, const Query& query, NodeId node) {
  on_[node] = 0;
  if (query.except != nullptr && query.except->Has(node)) return {};
  uint32_t slots = 0;
  for (uint32_t i = 0; i < query.alternatives.size() && slots == 0; ++i) {
    slots = placer.SlotsOn(node, query.alternatives[i]);
    shape_[node] = query.alternatives[i];
    alternative_[node] = static_cast<uint8_t>(i);
  }
  if (slots == 0) return {};
  if (query.one_per_node) slots = 1;
  Counted counted{slots};
  if (state_->has_power_budgets()) {
    const Shape& shape = placer.shapes()[shape_[node]];
    const double watts = WattsAdded(shape, state_->view_of(node), *state_);
    const double headroom = state_->power_headroom(node);
    counted.milliwatts = shape.count > 0 ? std::llround(watts * 1000) : 0;
    if (watts > headroom) {
      counted.slots = 0;
    } else if (counted.milliwatts > 0 && std::isfinite(headroom)) {
      counted.slots = std::min(counted.slots, static_cast<uint64_t>(headroom / watts));
    }
  }
  on_[node] = Clamp(counted.slots);
  return counted;
}

void SlotTree::Divide(Placer& placer, DomainId domain, uint32_t members, std::vector<NodeShare>& shares) {
  if (state_->children(domain).empty()) {
    Fill(placer, state_->nodes_under(domain), members, shares);
    return;
  }
  const size_t first = children_.size();
  if (direct_[domain] > 0) children_.push_back({kNone, direct_[domain], 0});
  for (const DomainId child : state_->children(domain)) {
    if (below_[child] > 0) children_.push_back({child, below_[child], state_->counters(child).free_milli});
  }
  std::sort(children_.begin() + static_cast<std::ptrdiff_t>(first), children_.end(),
            [](const Child& a, const Child& b) {
              if (a.slots != b.slots) return a.slots > b.slots;
              return a.free_milli != b.free_milli ? a.free_milli < b.free_milli : a.domain < b.domain;
            });
  const size_t end = children_.size();
  for (size_t at = first; members > 0 && at < end; ++at) {
    size_t chosen = at;
    if (children_[at].slots >= members) {
      while (chosen + 1 < end && children_[chosen + 1].slots >= members) ++chosen;
      while (chosen > at && children_[chosen - 1].slots == children_[chosen].slots) --chosen;
    }
    const Child child = children_[chosen];
    const uint32_t here = std::min(members, child.slots);
    members -= here;
    if (child.domain == kNone) {
      Fill(placer, state_->nodes_directly_under(domain), here, shares);
    } else {
      Divide(placer, child.domain, here, shares);
    }
  }
  children_.resize(first);
}

void SlotTree::Fill(Placer& placer, std::span<const NodeId> nodes, uint32_t members,
                    std::vector<NodeShare>& shares) {
  ranked_.clear();
  for (const NodeId node : nodes) {
    if (on_[node] == 0) continue;
    ranked_.push_back({node, shape_[node], alternative_[node], placer.SuitabilityOf(node, shape_[node])});
  }
  const auto better = [](const Ranked& a, const Ranked& b) {
    if (a.alternative != b.alternative) return a.alternative < b.alternative;
    if (a.suits != b.suits) return a.suits > b.suits;
    return a.node < b.node;
  };
  auto last = ranked_.end();
  if (members < ranked_.size()) {
    last = ranked_.begin() + static_cast<std::ptrdiff_t>(members);
    std::nth_element(ranked_.begin(), last, ranked_.end(), better);
  }
  std::sort(ranked_.begin(), last, better);
  for (auto at = ranked_.begin(); members > 0 && at != last; ++at) {
    const uint32_t here = std::min(members, on_[at->node]);
    members -= here;
    shares.push_back({at->node, here, at->shape});
  }
}

}  // namespace scheduler
