#include "gateway/control/grant.h"

namespace gateway::control {

using plugins::launchers::Grant;

Grant GrantOf(const scheduler::Cluster& cluster, const scheduler::Holding& holding) {
  Grant grant;
  grant.node = cluster.nodes[holding.node].name;
  grant.cpu_milli = holding.cpu_milli;
  grant.memory_mib = holding.memory_mib;
  if (holding.devices == 0) return grant;
  const scheduler::DeviceKind& kind = cluster.kinds[cluster.type_of(holding.node).kind];
  grant.kind = kind.name;
  grant.milli = holding.milli;
  for (uint8_t d = 0; d < scheduler::kMaxDevices; ++d) {
    if ((holding.devices >> d & 1) != 0) grant.devices.push_back(d);
  }
  if (holding.profile > 0 && kind.layout != scheduler::kNone) {
    grant.partition = cluster.layouts[kind.layout].profiles[holding.profile - size_t{1}].name;
    grant.partition_start = holding.start;
  }
  return grant;
}

}  // namespace gateway::control
