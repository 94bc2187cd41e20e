#include "scheduler/placement/shortfall.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <vector>

namespace scheduler {
namespace {

using NodesThat = std::vector<NodeId>;

std::string KindsIn(const DeviceAsk& ask) {
  return ask.kinds.empty() ? "" : fmt::format(" of {}", fmt::join(ask.kinds, " or "));
}

std::string Devices(const DeviceAsk& ask) {
  if (!ask.profile.empty()) return fmt::format("a partition {}{}", ask.profile, KindsIn(ask));
  if (ask.milli > 0)
    return fmt::format("{} of a device{}", static_cast<double>(ask.milli) / 1000, KindsIn(ask));
  return fmt::format("{} device{}{}", ask.count, ask.count == 1 ? "" : "s", KindsIn(ask));
}

bool IsOneOf(const std::vector<std::string>& names, std::string_view name) {
  return names.empty() || std::ranges::find(names, name) != names.end();
}

bool HasLabel(const Node& node, const LabelRule& rule) {
  return std::ranges::any_of(node.labels, [&](const auto& label) {
    return label.first == rule.key && std::ranges::find(rule.values, label.second) != rule.values.end();
  });
}

// The greatest amount of a node, and the sum over all nodes.
struct Amounts {
  int64_t largest = 0;
  int64_t all = 0;
};
Amounts Over(const NodesThat& nodes, const std::function<int64_t(NodeId)>& of) {
  Amounts amounts;
  for (const NodeId node : nodes) {
    amounts.largest = std::max(amounts.largest, of(node));
    amounts.all += of(node);
  }
  return amounts;
}

std::string OfNode(std::string_view asked, std::string_view has) {
  return fmt::format("a member asks for {} on one node, the largest node has {}", asked, has);
}

class RoleShortfall {
 public:
  RoleShortfall(const Role& role, const Cluster& cluster, NodesThat nodes)
      : role_(role), ask_(role.ask), cluster_(cluster), nodes_(std::move(nodes)) {}

  // Empty: no shortfall is found.
  std::string Find() {
    for (const LabelRule& rule : ask_.require) {
      std::erase_if(nodes_, [&](NodeId node) { return !HasLabel(cluster_.nodes[node], rule); });
      if (nodes_.empty())
        return fmt::format("asks for a node with the label {}={}, no node has it", rule.key,
                           fmt::join(rule.values, " or "));
    }
    for (const LabelRule& rule : ask_.avoid) {
      std::erase_if(nodes_, [&](NodeId node) { return HasLabel(cluster_.nodes[node], rule); });
      if (nodes_.empty())
        return fmt::format("avoids nodes with the label {}={}, but all nodes that it could use have it",
                           rule.key, fmt::join(rule.values, " or "));
    }
    if (std::string host = HostShortfall(); !host.empty()) return host;
    std::string first;
    for (const DeviceAsk& devices : ask_.devices) {
      std::string why = DeviceShortfall(devices);
      if (why.empty()) return {};
      if (first.empty()) first = std::move(why);
    }
    return first;
  }

 private:
  std::string HostShortfall() const {
    const Amounts cpu = Over(nodes_, [&](NodeId node) { return cluster_.type_of(node).cpu_milli; });
    const Amounts memory = Over(nodes_, [&](NodeId node) { return cluster_.type_of(node).memory_mib; });
    const auto cores = [](int64_t milli) {
      return fmt::format("{:g} CPU cores", static_cast<double>(milli) / 1000);
    };
    const auto mib = [](int64_t amount) { return fmt::format("{} MiB of memory", amount); };
    constexpr std::string_view kNone = "asks for {}, the cluster declares no {}; give its types {}";
    if (cpu.largest == 0 && ask_.cpu_milli > 0)
      return fmt::format(kNone, cores(ask_.cpu_milli), "cores", "cpu");
    if (memory.largest == 0 && ask_.memory_mib > 0)
      return fmt::format(kNone, mib(ask_.memory_mib), "memory", "memory");
    if (ask_.cpu_milli > cpu.largest) return OfNode(cores(ask_.cpu_milli), cores(cpu.largest));
    if (ask_.memory_mib > memory.largest) return OfNode(mib(ask_.memory_mib), mib(memory.largest));
    const int64_t members = role_.min_count;
    if (ask_.cpu_milli * members > cpu.all) return InAll(cores(ask_.cpu_milli * members), cores(cpu.all));
    if (ask_.memory_mib * members > memory.all) return InAll(mib(ask_.memory_mib * members), mib(memory.all));
    return {};
  }

  std::string DeviceShortfall(const DeviceAsk& ask) const {
    const auto of = [&](NodeId node) -> int64_t {
      const NodeType& type = cluster_.type_of(node);
      return type.devices > 0 && IsOneOf(ask.kinds, cluster_.kinds[type.kind].name) ? type.devices : 0;
    };
    const Amounts has = Over(nodes_, of);
    if (has.all == 0) return fmt::format("asks for {}, the cluster has none{}", Devices(ask), Others());
    if (ask.count == 0) return {};
    if (ask.count > has.largest) return OfNode(Devices(ask), fmt::format("{}", has.largest));
    const int64_t wanted = int64_t{ask.count} * role_.min_count;
    if (wanted > has.all)
      return InAll(fmt::format("{} devices{}", wanted, KindsIn(ask)), fmt::format("{}", has.all));
    return {};
  }

  std::string InAll(std::string_view asked, std::string_view has) const {
    return fmt::format("asks for {} in total ({} member{}), the whole cluster has {}", asked, role_.min_count,
                       role_.min_count == 1 ? "" : "s", has);
  }

  // ", but a100 and h100"; empty: no devices at all.
  std::string Others() const {
    std::vector<std::string> kinds;
    for (const NodeId node : nodes_) {
      const NodeType& type = cluster_.type_of(node);
      const std::string& name = cluster_.kinds.empty() ? std::string() : cluster_.kinds[type.kind].name;
      if (type.devices > 0 && std::ranges::find(kinds, name) == kinds.end()) kinds.push_back(name);
      if (kinds.size() == 5) break;
    }
    return kinds.empty() ? std::string() : fmt::format(", but {}", fmt::join(kinds, ", "));
  }

  const Role& role_;
  const Ask& ask_;
  const Cluster& cluster_;
  NodesThat nodes_;  // that count
};

}  // namespace

std::string ShortfallOf(const Job& job, const Cluster& cluster, Among among) {
  NodesThat nodes;
  for (NodeId node = 0; node < cluster.nodes.size(); ++node) {
    if (among == Among::kAllNodes || cluster.nodes[node].health == Health::kHealthy) nodes.push_back(node);
  }
  for (const ResourceAsk& ask : job.resources) {
    const auto has = std::ranges::find(cluster.resources, ask.name, &Resource::name);
    const uint32_t count = has == cluster.resources.end() ? 0 : has->count;
    if (ask.count > count) {
      return fmt::format("asks for {} of the resource {}, the cluster has {}", ask.count, ask.name, count);
    }
  }
  int64_t wanted = 0;
  for (const Role& role : job.roles) {
    if (std::string why = RoleShortfall(role, cluster, nodes).Find(); !why.empty()) return why;
    if (!role.ask.devices.empty()) wanted += int64_t{role.ask.devices.front().count} * role.min_count;
  }
  const int64_t has = Over(nodes, [&](NodeId node) -> int64_t { return cluster.type_of(node).devices; }).all;
  if (wanted > has) return fmt::format("asks for {} devices in total, the whole cluster has {}", wanted, has);
  if (job.topology.required && !job.topology.level.empty()) {
    return fmt::format("must run within one {}, and no {} has room for its {} members together",
                       job.topology.level, job.topology.level, MinMembers(job));
  }
  if (job.anti_affinity && MinMembers(job) > nodes.size()) {
    return fmt::format("asks for {} nodes, one for each member, the cluster has {}", MinMembers(job),
                       nodes.size());
  }
  if (MinMembers(job) == 1) {
    return "no node has the devices, cores and memory together that its member asks for";
  }
  return fmt::format("its {} members fit one by one, but not together with what each needs on its node",
                     MinMembers(job));
}

}  // namespace scheduler
