#include "gateway/control/starts/start_places.h"

#include <algorithm>
#include <optional>

namespace gateway::control {
namespace {

// The node's devices that fit the policy; absent: no replica can run there.
std::optional<uint16_t> CountWanted(const config::ModelPolicy& policy, const std::string& kind) {
  const std::vector<config::DeviceNeed>& needs = policy.placement.devices;
  if (needs.empty()) return uint16_t{0};
  if (kind.empty()) return std::nullopt;
  for (const config::DeviceNeed& need : needs) {
    const std::vector<std::string>& asked = need.ask.kinds;
    if (asked.empty() || std::ranges::find(asked, kind) != asked.end()) return need.ask.count;
  }
  return std::nullopt;
}

}  // namespace

std::vector<StartPlace> StartPlacesOf(const Context& context, const config::ModelPolicy& policy,
                                      const NodeWeights& weights) {
  std::vector<StartPlace> places;
  const scheduler::Cluster& cluster = context.cluster();
  const scheduler::ClusterState& state = context.planning->planner().state();
  for (scheduler::NodeId n = 0; n < cluster.nodes.size(); ++n) {
    if (state.health(n) != scheduler::Health::kHealthy) continue;
    const scheduler::NodeType& type = cluster.types[cluster.nodes[n].type];
    const std::string kind = type.devices > 0 ? cluster.kinds[type.kind].name : std::string();
    const std::optional<uint16_t> count = CountWanted(policy, kind);
    if (!count) continue;
    places.push_back(
        {.node = cluster.nodes[n].name,
         .kind = kind,
         .holds_weights = !policy.weights || weights.Holds(cluster.nodes[n].name, policy.weights->digest),
         .free = state.node(n).whole_count() >= *count});
  }
  return places;
}

}  // namespace gateway::control
