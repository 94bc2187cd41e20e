#include "gateway/control/weights/weights_neighbours.h"

#include <absl/strings/str_replace.h>
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "conf/hash.h"
#include "conf/text.h"
#include "gateway/config/node_url.h"
#include "gateway/net/url.h"
#include "scheduler/placement/topology.h"

namespace gateway::control {
namespace {

constexpr std::string_view kAddressInUrl = "{address}";
constexpr uint32_t kFar = 256;  // beyond every level

// A hash of the pair; its upper bits differ, too.
uint64_t SpreadOf(const std::string& node, const std::string& holder) {
  constexpr uint64_t kGolden = 0x9e3779b97f4a7c15;
  return conf::Fnv1a(fmt::format("{}\n{}", node, holder)) * kGolden;
}

// The level of the lowest switch above both.
uint32_t FabricDistance(const scheduler::Cluster& cluster, scheduler::NodeId a, scheduler::NodeId b) {
  const scheduler::DomainId common =
      scheduler::CommonDomain(cluster.fabric, cluster.nodes[a].domain, cluster.nodes[b].domain);
  return common == scheduler::kNone ? kFar : cluster.fabric.domains[common].level;
}

}  // namespace

std::vector<std::string> NearestHolders(const scheduler::ClusterState& state, const std::string& node,
                                        const std::vector<std::string>& holders) {
  const scheduler::Cluster& cluster = state.cluster();
  std::map<std::string_view, scheduler::NodeId> ids;
  for (scheduler::NodeId n = 0; n < cluster.nodes.size(); ++n) ids.emplace(cluster.nodes[n].name, n);
  const auto own = ids.find(node);
  std::vector<std::tuple<uint32_t, uint64_t, std::string>> ranked;
  for (const std::string& holder : holders) {
    const auto found = ids.find(holder);
    if (holder == node || found == ids.end()) continue;
    if (state.health(found->second) != scheduler::Health::kHealthy) continue;
    const uint32_t distance = own == ids.end() ? kFar : FabricDistance(cluster, own->second, found->second);
    ranked.emplace_back(distance, SpreadOf(node, holder), holder);
  }
  std::ranges::sort(ranked);
  std::vector<std::string> nearest;
  nearest.reserve(ranked.size());
  for (auto& [distance, spread, holder] : ranked) nearest.push_back(std::move(holder));
  return nearest;
}

std::vector<std::string> NeighbourUrls(const config::NeighbourServers& how,
                                       const std::vector<std::string>& nodes,
                                       const std::function<std::string(const std::string& node)>& address) {
  if (how.url.find(config::kNodeInUrl) == std::string::npos &&
      how.url.find(kAddressInUrl) == std::string::npos)
    return {how.url};
  std::vector<std::string> urls;
  for (const std::string& node : nodes) {
    if (urls.size() == how.most) break;
    urls.push_back(
        absl::StrReplaceAll(how.url, {{conf::Abseil(config::kNodeInUrl), node},
                                      {conf::Abseil(kAddressInUrl), net::Bracketed(address(node))}}));
  }
  return urls;
}

}  // namespace gateway::control
