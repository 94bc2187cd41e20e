#include "gateway/control/workloads/grant.h"

#include <algorithm>

namespace gateway::control {

using plugins::launchers::DeviceGrant;

DeviceGrant GrantOf(const scheduler::Cluster& cluster, const scheduler::Holding& holding) {
  DeviceGrant grant;
  grant.node = cluster.nodes[holding.node].name;
  grant.cpu_milli = holding.cpu_milli;
  grant.memory_mib = holding.memory_mib;
  if (holding.devices == 0) return grant;
  const scheduler::DeviceKind& kind = cluster.kinds[cluster.type_of(holding.node).kind];
  grant.kind = kind.name;
  grant.milli = holding.milli;
  grant.device_mib = holding.device_mib;
  for (uint8_t d = 0; d < scheduler::kMaxDevices; ++d) {
    if ((holding.devices >> d & 1) != 0) grant.devices.push_back(d);
  }
  if (holding.profile > 0 && kind.layout != scheduler::kNone) {
    grant.partition = cluster.layouts[kind.layout].profiles[holding.profile - size_t{1}].name;
    grant.partition_start = holding.start;
  }
  return grant;
}

std::optional<scheduler::Holding> HoldingOf(const scheduler::Cluster& cluster, const DeviceGrant& grant) {
  const auto node = std::ranges::find(cluster.nodes, grant.node, &scheduler::Node::name);
  if (node == cluster.nodes.end()) return std::nullopt;
  scheduler::Holding holding{.node = static_cast<scheduler::NodeId>(node - cluster.nodes.begin()),
                             .cpu_milli = grant.cpu_milli,
                             .memory_mib = grant.memory_mib};
  if (grant.devices.empty()) return holding;
  const scheduler::NodeType& type = cluster.type_of(holding.node);
  const scheduler::DeviceKind& kind = cluster.kinds[type.kind];
  if (kind.name != grant.kind) return std::nullopt;
  for (const uint8_t device : grant.devices) {
    if (device >= type.devices) return std::nullopt;
    holding.devices |= uint32_t{1} << device;
  }
  holding.milli = grant.milli;
  holding.device_mib = grant.device_mib;
  if (grant.partition.empty()) return holding;
  if (kind.layout == scheduler::kNone) return std::nullopt;
  const auto& profiles = cluster.layouts[kind.layout].profiles;
  const auto profile = std::ranges::find(profiles, grant.partition, &scheduler::PartitionProfile::name);
  if (profile == profiles.end()) return std::nullopt;
  holding.profile = static_cast<uint8_t>(profile - profiles.begin() + 1);
  holding.start = grant.partition_start;
  return holding;
}

int64_t HeldMilli(const scheduler::Cluster& cluster, const DeviceGrant& grant) {
  const auto devices = static_cast<int64_t>(grant.devices.size());
  if (grant.partition.empty()) return devices * grant.milli;
  const std::optional<scheduler::Holding> holding = HoldingOf(cluster, grant);
  if (!holding || holding->profile == 0) return 0;
  const scheduler::KindId kind = cluster.type_of(holding->node).kind;
  const scheduler::PartitionLayout& layout = cluster.layouts[cluster.kinds[kind].layout];
  return devices * layout.profiles[holding->profile - 1u].compute * scheduler::kWholeDevice / layout.compute;
}

}  // namespace gateway::control
