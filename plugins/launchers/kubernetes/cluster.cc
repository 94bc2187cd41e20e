#include "plugins/launchers/kubernetes/cluster.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

namespace plugins::launchers::kubernetes {
namespace {

bool Applies(const DeviceResource& row, const Node& node) {
  if (row.label.empty()) return true;
  const auto found = node.labels.find(row.label);
  return found != node.labels.end() && found->second == row.value;
}

bool KeepsAway(const Taint& taint, const std::vector<Toleration>& tolerated) {
  if (taint.effect != "NoSchedule" && taint.effect != "NoExecute") return false;
  return std::ranges::none_of(tolerated, [&](const Toleration& rule) {
    const bool key = rule.key.empty() ? rule.exists : rule.key == taint.key;
    return key && (rule.exists || rule.value == taint.value) &&
           (rule.effect.empty() || rule.effect == taint.effect);
  });
}

// Taints that say what `unschedulable` and the condition Ready say, too.
bool IsOfNodeItself(const Taint& taint) {
  return taint.key == "node.kubernetes.io/unschedulable" || taint.key == "node.kubernetes.io/not-ready" ||
         taint.key == "node.kubernetes.io/unreachable";
}

uint32_t AllocatableOf(const Node& node, const std::string& resource) {
  const auto found = node.devices.find(resource);
  return found == node.devices.end() ? 0 : found->second;
}

bool HasPartitions(const Node& node) {
  return std::ranges::any_of(node.devices, [](const auto& device) {
    return device.first.starts_with(kMigPrefix) && device.second > 0;
  });
}

// How many of a node's devices, all of them cut alike, so many instances fill. Which ones they are, Kubernetes
// does not say; of each profile enough instances remain on the others.
uint32_t FilledBy(const Taken& taken, const Node& node, uint32_t devices) {
  uint32_t filled = 0;
  for (const auto& [resource, count] : taken.instances) {
    const uint32_t each = std::max(AllocatableOf(node, resource) / devices, 1U);
    filled = std::max(filled, (count + each - 1) / each);
  }
  return filled;
}

}  // namespace

ExpectedNodes ExpectedOf(const scheduler::Cluster& cluster) {
  ExpectedNodes expected;
  for (const scheduler::Node& node : cluster.nodes) {
    const scheduler::NodeType& type = cluster.types[node.type];
    expected[node.name] = {type.devices > 0 ? cluster.kinds[type.kind].name : std::string(), type.devices};
  }
  return expected;
}

DeviceTable::DeviceTable(std::vector<DeviceResource> rows) : rows_(std::move(rows)) {
  for (const char* known : {"nvidia.com/gpu", "amd.com/gpu", "huawei.com/Ascend910"})
    rows_.push_back({.resource = known});
}

std::string DeviceTable::ResourceOf(const Node& node, const std::string& kind) const {
  for (const DeviceResource& row : rows_) {
    if ((row.kind.empty() || row.kind == kind) && Applies(row, node) && AllocatableOf(node, row.resource) > 0)
      return row.resource;
  }
  return {};
}

const DeviceResource* DeviceTable::RowOf(const Node& node) const {
  const auto row = std::ranges::find_if(rows_, [&](const DeviceResource& one) {
    return Applies(one, node) && AllocatableOf(node, one.resource) > 0;
  });
  return row == rows_.end() ? nullptr : &*row;
}

Taken DeviceTable::TakenBy(const Pod& pod) const {
  Taken taken{.host = pod.host};
  for (const auto& [resource, count] : pod.devices) {
    const bool whole =
        std::ranges::any_of(rows_, [&](const DeviceResource& row) { return row.resource == resource; });
    if (whole) {
      taken.devices += count;
    } else if (resource.starts_with(kMigPrefix)) {
      taken.instances[resource] += count;
    }
  }
  return taken;
}

std::vector<Toleration> TolerationsOf(const nlohmann::json& piece) {
  std::vector<Toleration> rules;
  if (!piece.is_object() || !piece.contains("tolerations") || !piece["tolerations"].is_array()) return rules;
  for (const nlohmann::json& rule : piece["tolerations"]) {
    if (!rule.is_object()) continue;
    const auto text = [&rule](const char* key) {
      const auto found = rule.find(key);
      return found != rule.end() && found->is_string() ? found->get<std::string>() : std::string();
    };
    const std::string how = text("operator");
    if (!how.empty() && how != "Equal" && how != "Exists") continue;
    rules.push_back({text("key"), text("value"), how == "Exists", text("effect")});
  }
  return rules;
}

scheduler::Health HealthOf(const Node& node, const std::vector<Toleration>& tolerated) {
  if (node.ready != "True") return scheduler::Health::kQuarantined;
  const bool kept_away =
      std::ranges::any_of(node.taints, [&](const Taint& taint) { return KeepsAway(taint, tolerated); });
  return node.unschedulable || kept_away ? scheduler::Health::kDraining : scheduler::Health::kHealthy;
}

std::string WhyNot(const Node& node, const std::vector<Toleration>& tolerated) {
  if (node.ready != "True") {
    std::string why = fmt::format("Kubernetes says it is not ready ({})",
                                  node.ready_reason.empty() ? node.ready : node.ready_reason);
    if (!node.ready_message.empty()) why += ": " + node.ready_message;
    return why;
  }
  if (node.unschedulable) return "it is cordoned in Kubernetes";
  for (const Taint& taint : node.taints) {
    if (KeepsAway(taint, tolerated) && !IsOfNodeItself(taint))
      return fmt::format("it has the taint {}{}{}:{}", taint.key, taint.value.empty() ? "" : "=", taint.value,
                         taint.effect);
  }
  return HealthOf(node, tolerated) == scheduler::Health::kHealthy ? "" : "it has a taint of its own";
}

void Taken::Add(const Taken& other) {
  devices += other.devices;
  for (const auto& [resource, count] : other.instances) instances[resource] += count;
  host.cpu_milli += other.host.cpu_milli;
  host.memory_mib += other.host.memory_mib;
}

void Taken::Remove(const Taken& other) {
  devices -= other.devices;
  for (const auto& [resource, count] : other.instances) instances[resource] -= count;
  std::erase_if(instances, [](const auto& instance) { return instance.second == 0; });
  host.cpu_milli -= other.host.cpu_milli;
  host.memory_mib -= other.host.memory_mib;
}

SharedCluster Share(const std::map<std::string, Node>& nodes, const std::map<std::string, Taken>& taken,
                    const ExpectedNodes& expected, const DeviceTable& table,
                    const std::vector<Toleration>& tolerated) {
  SharedCluster shared;
  for (const auto& [name, want] : expected) {
    const auto found = nodes.find(name);
    if (found == nodes.end()) {
      shared.left_out.push_back(fmt::format("node {}: Kubernetes has none of that name", name));
      continue;
    }
    const Node& node = found->second;
    SharedNode row{.name = name, .health = HealthOf(node, tolerated), .why = WhyNot(node, tolerated)};
    if (row.health == scheduler::Health::kDraining) row.leaving = Leaving::kAll;
    const auto by_others = taken.find(name);
    const Taken held = by_others == taken.end() ? Taken() : by_others->second;
    row.host = {.has = {node.cpu_milli, node.memory_mib}, .taken = held.host};
    if (want.devices > 0) {
      const std::string resource = table.ResourceOf(node, want.kind);
      uint32_t holds = held.devices;
      if (!resource.empty()) {
        row.kind = want.kind;
        row.devices = AllocatableOf(node, resource);
      } else if (HasPartitions(node)) {
        row.kind = want.kind;  // all of its devices are cut
        row.devices = want.devices;
        holds += FilledBy(held, node, want.devices);
      } else {
        shared.left_out.push_back(
            fmt::format("devices of node {}: Kubernetes shows no resource for {} there", name, want.kind));
      }
      row.taken = std::min(holds, want.devices);
    }
    shared.nodes.push_back(std::move(row));
  }
  return shared;
}

}  // namespace plugins::launchers::kubernetes
