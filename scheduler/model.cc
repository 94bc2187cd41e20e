#include "scheduler/model.h"

#include "conf/words.h"

#include <fmt/format.h>

#include <algorithm>

namespace scheduler {
namespace {

bool Varies(const std::vector<uint8_t>& domains) {
  return std::ranges::adjacent_find(domains, std::ranges::not_equal_to{}) != domains.end();
}

std::string DefectOf(const Cluster& cluster, const NodeType& type) {
  if (type.devices > kMaxDevices) {
    return fmt::format("node type {}: {} devices, at most {} fit", type.name, type.devices, kMaxDevices);
  }
  if (type.devices > 0 && type.kind >= cluster.kinds.size()) {
    return fmt::format("node type {}: its device kind {} does not exist", type.name, type.kind);
  }
  for (const std::vector<uint8_t>* domains : {&type.link_domain, &type.numa}) {
    if (!domains->empty() && domains->size() != type.devices) {
      return fmt::format("node type {}: {} devices, but link or NUMA domains of {}", type.name, type.devices,
                         domains->size());
    }
  }
  return {};
}

}  // namespace

bool NodeType::has_topology() const {
  return Varies(link_domain) || Varies(numa);
}

std::string FirstDefect(const Cluster& cluster) {
  if (cluster.kinds.size() > kMaxKinds) {
    return fmt::format("{} device kinds, at most {} fit", cluster.kinds.size(), kMaxKinds);
  }
  for (const DeviceKind& kind : cluster.kinds) {
    if (kind.layout != kNone && kind.layout >= cluster.layouts.size()) {
      return fmt::format("device kind {}: its partition layout {} does not exist", kind.name, kind.layout);
    }
  }
  for (const NodeType& type : cluster.types) {
    if (std::string defect = DefectOf(cluster, type); !defect.empty()) return defect;
  }
  const std::vector<Domain>& domains = cluster.fabric.domains;
  for (const Domain& domain : domains) {
    if (domain.level >= cluster.fabric.levels.size()) {
      return fmt::format("fabric domain {}: level {} does not exist", domain.name, domain.level);
    }
    if (domain.parent == kNone) continue;
    if (domain.parent >= domains.size() || domains[domain.parent].level <= domain.level) {
      return fmt::format("fabric domain {}: its parent is not of a higher level", domain.name);
    }
  }
  for (const Node& node : cluster.nodes) {
    if (node.type >= cluster.types.size()) return fmt::format("node {}: its type does not exist", node.name);
    if (node.domain >= domains.size())
      return fmt::format("node {}: its fabric domain does not exist", node.name);
  }
  for (size_t i = 0; i < cluster.resources.size(); ++i) {
    const Resource& resource = cluster.resources[i];
    if (resource.name.empty()) return "a resource has no name";
    if (resource.count > kMostOfResource)
      return fmt::format("resource {}: its count is {}, at most {} fit", resource.name, resource.count,
                         kMostOfResource);
    for (size_t other = 0; other < i; ++other) {
      if (cluster.resources[other].name == resource.name)
        return fmt::format("resource {} is given twice", resource.name);
    }
  }
  return {};
}

uint64_t DevicesOf(const Cluster& cluster, std::string_view kind) {
  uint64_t devices = 0;
  for (const Node& node : cluster.nodes) {
    const NodeType& type = cluster.types[node.type];
    if (type.devices > 0 && cluster.kinds[type.kind].name == kind) devices += type.devices;
  }
  return devices;
}

Fabric FlatFabric() {
  return {.levels = {"cluster"}, .domains = {{.name = "cluster", .level = 0}}};
}

void GroupIntoLeaves(Cluster& cluster, int nodes_per_leaf, int leaves_per_spine) {
  const size_t per_leaf = static_cast<size_t>(std::max(nodes_per_leaf, 1));
  const size_t per_spine = static_cast<size_t>(std::max(leaves_per_spine, 0));
  const size_t leaves = (cluster.nodes.size() + per_leaf - 1) / per_leaf;
  const size_t spines = per_spine == 0 ? 0 : (leaves + per_spine - 1) / per_spine;

  Fabric& fabric = cluster.fabric;
  fabric.levels = spines == 0 ? std::vector<std::string>{"leaf", "cluster"}
                              : std::vector<std::string>{"leaf", "spine", "cluster"};
  fabric.domains.clear();
  const auto root = static_cast<DomainId>(leaves + spines);
  for (size_t i = 0; i < leaves; ++i) {
    const auto parent = spines == 0 ? root : static_cast<DomainId>(leaves + i / per_spine);
    fabric.domains.push_back({.name = fmt::format("leaf-{}", i), .level = 0, .parent = parent});
  }
  for (size_t i = 0; i < spines; ++i) {
    fabric.domains.push_back({.name = fmt::format("spine-{}", i), .level = 1, .parent = root});
  }
  fabric.domains.push_back(
      {.name = "cluster", .level = static_cast<uint8_t>(fabric.levels.size() - 1), .parent = kNone});
  for (size_t i = 0; i < cluster.nodes.size(); ++i) {
    cluster.nodes[i].domain = static_cast<DomainId>(i / per_leaf);
  }
}

constexpr conf::Word<Health> kHealths[] = {{"healthy", Health::kHealthy},
                                           {"suspect", Health::kSuspect},
                                           {"draining", Health::kDraining},
                                           {"quarantined", Health::kQuarantined}};

conf::Words<Health> WordsOf(Health) {
  return kHealths;
}

std::string_view Name(Health health) {
  return conf::WordOf(kHealths, health);
}

}  // namespace scheduler
