#include "scheduler/placement/spreader.h"

#include <algorithm>
#include <span>

namespace scheduler {
namespace {

constexpr std::string_view kNodes = "node";

}  // namespace

Spreader::Spreader(const ClusterState& state)
    : state_(&state),
      on_node_(state.cluster().nodes.size()),
      beside_on_node_(state.cluster().nodes.size()),
      on_leaf_(state.cluster().fabric.domains.size()),
      closed_(state.cluster().nodes.size()) {}

// Nodes without the label are one zone.
void Spreader::FindZones() {
  zone_of_.clear();
  on_zone_.assign(1, 0);
  if (!query_.spread || query_.over.empty() || query_.over == kNodes) return;
  const std::vector<Node>& nodes = state_->cluster().nodes;
  const std::string label(query_.over);
  std::map<std::string_view, uint32_t> zones;
  zone_of_.reserve(nodes.size());
  for (const Node& node : nodes) {
    const auto at = node.labels.find(label);
    const std::string_view value =
        at == node.labels.end() ? std::string_view() : std::string_view(at->second);
    zone_of_.push_back(zones.try_emplace(value, static_cast<uint32_t>(zones.size())).first->second);
  }
  on_zone_.assign(zones.size(), 0);
}

void Spreader::FindGroups(DomainId domain) {
  const auto nodes = state_->nodes_directly_under(domain);
  if (zone_of_.empty()) {
    if (!nodes.empty()) groups_.push_back({.domain = domain, .rank = {}});
  } else {
    std::set<uint32_t> zones;
    for (const NodeId node : nodes) zones.insert(zone_of_[node]);
    for (const uint32_t zone : zones) groups_.push_back({.domain = domain, .zone = zone, .rank = {}});
  }
  for (const DomainId child : state_->children(domain)) FindGroups(child);
}

void Spreader::Start(Placer& placer, const Query& query, Rng& rng) {
  query_ = query;
  draw_ = rng.Next();
  last_ = SIZE_MAX;
  std::ranges::fill(on_node_, 0);
  std::ranges::fill(beside_on_node_, 0);
  std::ranges::fill(on_leaf_, 0);
  std::ranges::fill(closed_, 0);
  FindZones();
  const auto count = [&](JobIndex job, std::vector<uint32_t>& on_node) {
    for (const MemberId id : state_->of(job)) {
      const NodeId node = state_->member(id).holding.node;
      ++on_node[node];
      ++on_leaf_[state_->cluster().nodes[node].domain];
      if (!zone_of_.empty()) ++on_zone_[zone_of_[node]];
    }
  };
  count(query.job, on_node_);
  if (query.beside != nullptr) {
    for (const JobIndex job : *query.beside) {
      if (job != query.job) count(job, beside_on_node_);
    }
  }
  groups_.clear();
  const std::vector<Domain>& domains = state_->cluster().fabric.domains;
  for (DomainId d = 0; d < domains.size(); ++d) {
    if (query.under == kNone ? domains[d].parent == kNone : d == query.under) FindGroups(d);
  }
  for (Group& group : groups_) Refresh(placer, group);
}

void Spreader::Refresh(Placer& placer, Group& group) {
  group.best = kNone;
  for (const NodeId node : state_->nodes_directly_under(group.domain)) {
    if (!zone_of_.empty() && zone_of_[node] != group.zone) continue;
    if (closed_[node] != 0 || (query_.apart && on_node_[node] > 0)) continue;
    if (query_.except != nullptr && query_.except->Has(node)) continue;
    if (placer.SlotsOn(node, query_.shape) == 0) continue;
    const Rank rank{.crowd = query_.spread ? -int64_t{on_node_[node]} - beside_on_node_[node] : 0,
                    .suits = placer.SuitabilityOf(node, query_.shape),
                    .lot = Lot(draw_, node)};
    if (group.best != kNone && !(rank > group.rank)) continue;
    group.best = node;
    group.rank = rank;
  }
}

std::optional<Holding> Spreader::Next(Placer& placer) {
  if (last_ != SIZE_MAX) {
    ++on_node_[last_node_];
    ++on_leaf_[groups_[last_].domain];
    ++on_zone_[groups_[last_].zone];
    Refresh(placer, groups_[last_]);
    last_ = SIZE_MAX;
  }
  const auto rank_of = [&](const Group& group) {
    Rank rank = group.rank;
    rank.zone = -int64_t{on_zone_[group.zone]};
    if (query_.spread && query_.over != kNodes) rank.crowd -= int64_t{on_leaf_[group.domain]} << 32;
    rank.leaf = placer.LeafRank(group.domain);
    return rank;
  };
  while (true) {
    size_t best = SIZE_MAX;
    Rank best_rank;
    for (size_t i = 0; i < groups_.size(); ++i) {
      if (groups_[i].best == kNone) continue;
      const Rank rank = rank_of(groups_[i]);
      if (best != SIZE_MAX && !(rank > best_rank)) continue;
      best = i;
      best_rank = rank;
    }
    if (best == SIZE_MAX) return std::nullopt;
    const NodeId node = groups_[best].best;
    if (const std::optional<Holding> holding = placer.On(node, {&query_.shape, 1})) {
      last_ = best;
      last_node_ = node;
      return holding;
    }
    closed_[node] = 1;
    Refresh(placer, groups_[best]);
  }
}

}  // namespace scheduler
