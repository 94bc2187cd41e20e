// Neighbours: the nodes whose stores a fetch of weights may ask before the source, and their URLs. Pure.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "gateway/config/weights.h"
#include "scheduler/state/cluster_state.h"

namespace gateway::control {

// The URLs of stores that may hold the weights of that digest, in the order in which they are asked.
using NeighbourStores = std::function<std::vector<std::string>(std::string_view digest)>;
inline NeighbourStores NoNeighbours() {
  return [](std::string_view) { return std::vector<std::string>(); };
}

// The holders that are healthy nodes of the cluster, without `node` itself: those below the same switch first. Equally
// near holders have another order for each node, so that nodes that fetch together do not all ask the same one.
std::vector<std::string> NearestHolders(const scheduler::ClusterState& state, const std::string& node,
                                        const std::vector<std::string>& holders);

// At most `how.most` URLs; a single one where the URL names a server for all nodes.
std::vector<std::string> NeighbourUrls(const config::NeighbourServers& how,
                                       const std::vector<std::string>& nodes,
                                       const std::function<std::string(const std::string& node)>& address);

}  // namespace gateway::control
