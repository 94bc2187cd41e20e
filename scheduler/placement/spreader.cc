#include "scheduler/placement/spreader.h"

#include <algorithm>
#include <span>

namespace scheduler {

Spreader::Spreader(const ClusterState& state)
    : state_(&state),
      on_node_(state.cluster().nodes.size()),
      beside_on_node_(state.cluster().nodes.size()),
      on_leaf_(state.cluster().fabric.domains.size()),
      closed_(state.cluster().nodes.size()) {}

void Spreader::FindGroups(DomainId domain) {
  if (!state_->nodes_directly_under(domain).empty()) groups_.push_back({.domain = domain, .rank = {}});
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
  const auto count = [&](JobIndex job, std::vector<uint32_t>& on_node) {
    for (const MemberId id : state_->of(job)) {
      const NodeId node = state_->member(id).holding.node;
      ++on_node[node];
      ++on_leaf_[state_->cluster().nodes[node].domain];
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
    Refresh(placer, groups_[last_]);
    last_ = SIZE_MAX;
  }
  const auto rank_of = [&](const Group& group) {
    Rank rank = group.rank;
    if (query_.spread) rank.crowd -= int64_t{on_leaf_[group.domain]} << 32;
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
