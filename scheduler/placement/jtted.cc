#include "scheduler/placement/jtted.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "scheduler/placement/policies.h"

namespace scheduler {
namespace {

constexpr double kWithinNode = 1.0 / 9;
constexpr double kPerLevel = 1.27;

uint64_t WeightOf(const Holding& holding) {
  return holding.devices == 0 ? 1 : static_cast<uint64_t>(std::popcount(holding.devices));
}

double PairsAmong(uint64_t devices) {
  return static_cast<double>(devices) * static_cast<double>(devices - std::min<uint64_t>(devices, 1)) / 2;
}

}  // namespace

JttedEstimator::JttedEstimator(const ClusterState& state, const ShapeTable& shapes)
    : state_(&state),
      empty_(state.cluster()),
      placer_(empty_, shapes, *FindPlacementPolicy("e-binpack")),
      gangs_(empty_, shapes),
      below_(state.cluster().fabric.domains.size()) {
  for (NodeId node = 0; node < state.cluster().nodes.size(); ++node) {
    empty_.SetHealth(node, Health::kHealthy);
  }
}

Jtted JttedEstimator::Of(JobIndex job, const JobEntry& entry) {
  here_.clear();
  for (const MemberId id : state_->of(job)) {
    const Holding& holding = state_->member(id).holding;
    here_.push_back({holding.node, WeightOf(holding)});
  }
  const Pairs here = CostOf(here_);
  Jtted jtted{1, here.nodes, here.nodes, here.leaves, here.leaves};
  if (here.nodes < 2 || !PlaceIdeally(job, entry)) return jtted;
  const Pairs ideal = CostOf(ideal_);
  jtted.ratio = std::max(1.0, here.mean_cost / ideal.mean_cost);
  jtted.ideal_nodes = ideal.nodes;
  jtted.ideal_leaves = ideal.leaves;
  return jtted;
}

bool JttedEstimator::PlaceIdeally(JobIndex job, const JobEntry& entry) {
  JobEntry alike;
  alike.shapes = entry.shapes;
  alike.job.anti_affinity = entry.job.anti_affinity;
  alike.topology.level = state_->cluster().fabric.levels.back();  // preferred: together
  for (const Role& role : entry.job.roles) {
    alike.job.roles.push_back({.ask = role.ask, .count = 0, .min_count = 0});
  }
  for (const MemberId id : state_->of(job)) {
    Role& role = alike.job.roles[state_->member(id).role];
    role.min_count = ++role.count;
    ++alike.members;
  }
  Trial trial(empty_);
  Rng rng(0);
  const GangResult result = gangs_.Place(trial, placer_, job, alike, nullptr, rng);
  ideal_.clear();
  for (const MemberAt& member : result.placed) {
    ideal_.push_back({member.holding.node, WeightOf(member.holding)});
  }
  return !ideal_.empty();
}

JttedEstimator::Pairs JttedEstimator::CostOf(std::vector<NodeWeight>& weights) {
  const Cluster& cluster = state_->cluster();
  std::ranges::sort(weights, {}, &NodeWeight::node);
  Pairs pairs;
  double cost = 0;
  uint64_t devices = 0;
  // Devices that are counted in a domain are subtracted from its parent, since those pairs do not meet there.
  const auto cost_at = [&](DomainId domain) {
    return domain == kNone ? 0 : std::pow(kPerLevel, cluster.fabric.domains[domain].level);
  };
  touched_.clear();
  for (size_t i = 0, end = 0; i < weights.size(); i = end) {
    uint64_t on_node = 0;
    for (; end < weights.size() && weights[end].node == weights[i].node; ++end)
      on_node += weights[end].devices;
    ++pairs.nodes;
    devices += on_node;
    const DomainId leaf = cluster.nodes[weights[i].node].domain;
    pairs.leaves += below_[leaf] == 0;
    cost += PairsAmong(on_node) * (kWithinNode - cost_at(leaf));
    for (DomainId d = leaf; d != kNone; d = cluster.fabric.domains[d].parent) {
      if (below_[d] == 0) touched_.push_back(d);
      below_[d] += on_node;
    }
  }
  for (const DomainId d : touched_) {
    cost += PairsAmong(below_[d]) * (cost_at(d) - cost_at(cluster.fabric.domains[d].parent));
    below_[d] = 0;
  }
  if (devices > 1) pairs.mean_cost = cost / PairsAmong(devices);
  return pairs;
}

}  // namespace scheduler
