#include "gateway/config/device_kinds.h"

#include <set>

namespace gateway::config {

std::vector<std::string> KindsOf(const scheduler::Cluster& cluster,
                                 std::span<const scheduler::DeviceAsk> asks) {
  std::set<std::string> kinds;
  for (const scheduler::DeviceAsk& ask : asks) {
    kinds.insert(ask.kinds.begin(), ask.kinds.end());
    if (!ask.kinds.empty()) continue;
    for (const scheduler::DeviceKind& kind : cluster.kinds) kinds.insert(kind.name);
  }
  return {kinds.begin(), kinds.end()};
}

}  // namespace gateway::config
