#include "scheduler/io/bounds.h"

#include <absl/container/flat_hash_set.h>
#include <fmt/format.h>

#include <algorithm>

namespace scheduler::io {
namespace {

bool IsAmount(int64_t amount) {
  return amount >= 0 && amount <= kMostAmount;
}

bool IsPower(double watts) {
  return watts >= 0 && watts <= kMostWatts;
}

std::string ExcessOf(const PartitionLayout& layout) {
  if (layout.compute < 1 || layout.compute > 8 || layout.slots < 1 || layout.slots > 8) {
    return "compute and slots are not between 1 and 8";
  }
  if (layout.profiles.size() >= UINT8_MAX) return fmt::format("{} profiles", layout.profiles.size());
  for (const PartitionProfile& profile : layout.profiles) {
    const bool fits =
        profile.compute >= 1 && profile.compute <= layout.compute && profile.slots >= 1 &&
        std::ranges::all_of(profile.starts, [&](int start) { return start + profile.slots <= layout.slots; });
    if (!fits) return fmt::format("profile {} does not fit into it", profile.name);
  }
  return {};
}

std::string ExcessOf(const NodeType& type) {
  if (!IsAmount(type.cpu_milli))
    return fmt::format("cpu_milli {} is not 0 to {}", type.cpu_milli, kMostAmount);
  if (!IsAmount(type.memory_mib))
    return fmt::format("memory_mib {} is not 0 to {}", type.memory_mib, kMostAmount);
  if (!IsPower(type.idle_watts)) return fmt::format("{} watts", type.idle_watts);
  for (const auto* groups : {&type.link_domain, &type.numa}) {
    if (std::ranges::any_of(*groups, [](int group) { return group >= kMaxDevices; })) {
      return fmt::format("a device group is not below {}", kMaxDevices);
    }
  }
  return {};
}

std::string ExcessOf(const Fabric& fabric) {
  if (fabric.levels.size() > kMostLevels) {
    return fmt::format("{} fabric levels, at most {} fit", fabric.levels.size(), kMostLevels);
  }
  const auto roots = std::ranges::count(fabric.domains, kNone, &Domain::parent);
  if (roots != 1) return fmt::format("{} fabric domains have no parent, exactly one is the root", roots);
  for (const Domain& domain : fabric.domains) {
    if (!IsPower(domain.power_budget_watts)) {
      return fmt::format("fabric domain {}: {} watts", domain.name, domain.power_budget_watts);
    }
  }
  return {};
}

}  // namespace

std::string FirstExcess(const Cluster& cluster) {
  for (const PartitionLayout& layout : cluster.layouts) {
    if (std::string excess = ExcessOf(layout); !excess.empty()) {
      return fmt::format("partition layout {}: {}", layout.name, excess);
    }
  }
  for (const DeviceKind& kind : cluster.kinds) {
    if (kind.memory_mib < 0 || kind.memory_mib > INT32_MAX) {
      return fmt::format("device kind {}: memory_mib {} is not 0 to {}", kind.name, kind.memory_mib,
                         INT32_MAX);
    }
    if (!IsPower(kind.idle_watts) || !IsPower(kind.busy_watts)) {
      return fmt::format("device kind {}: {} to {} watts", kind.name, kind.idle_watts, kind.busy_watts);
    }
  }
  if (cluster.types.size() > kMostTypes) {
    return fmt::format("{} node types, at most {} fit", cluster.types.size(), kMostTypes);
  }
  for (const NodeType& type : cluster.types) {
    if (std::string excess = ExcessOf(type); !excess.empty()) {
      return fmt::format("node type {}: {}", type.name, excess);
    }
  }
  if (std::string excess = ExcessOf(cluster.fabric); !excess.empty()) return excess;
  if (cluster.nodes.empty()) return "has no nodes";
  if (cluster.nodes.size() > kMostNodes) {
    return fmt::format("{} nodes, at most {} fit", cluster.nodes.size(), kMostNodes);
  }
  absl::flat_hash_set<std::string_view> names;
  for (const Node& node : cluster.nodes) {
    if (!names.insert(node.name).second) return fmt::format("node \"{}\" is given twice", node.name);
    if (!IsPower(node.power_budget_watts)) {
      return fmt::format("node {}: {} watts", node.name, node.power_budget_watts);
    }
  }
  return {};
}

}  // namespace scheduler::io
