#include "scheduler/io/cluster_yaml.h"

#include <algorithm>

#include "conf/reader.h"
#include "scheduler/io/cluster_spec.h"
#include "scheduler/io/name_pattern.h"
#include "scheduler/io/units.h"
#include "scheduler/state/partitions.h"

namespace scheduler::io {
namespace {

// A file that lists 10,000 nodes one by one, with labels.
constexpr conf::ParseLimits kLimits = {.bytes = 32 << 20, .values = 2'000'000};

template <class T>
size_t IndexOf(const std::vector<T>& list, const std::string& name) {
  return static_cast<size_t>(std::ranges::find(list, name, &T::name) - list.begin());
}

// The names that a checked pattern has for each of `count` owners, in turn.
std::vector<std::string> ShareOut(const std::string& pattern, size_t count) {
  const NamePattern names = *NamePattern::Parse(pattern);
  const size_t each = count / names.count();
  std::vector<std::string> out;
  out.reserve(count);
  for (size_t i = 0; i < count; ++i) out.push_back(names.At(names.count() == 1 ? 0 : i / each));
  return out;
}

PartitionLayout ToLayout(const LayoutSpec& spec, const std::string& name) {
  PartitionLayout layout{
      .name = name, .compute = static_cast<uint8_t>(spec.compute), .slots = static_cast<uint8_t>(spec.slots)};
  for (const ProfileSpec& profile : spec.profiles) {
    layout.profiles.push_back({.name = profile.name,
                               .compute = static_cast<uint8_t>(profile.compute),
                               .slots = static_cast<uint8_t>(profile.slots),
                               .starts = {profile.starts.begin(), profile.starts.end()}});
  }
  return layout;
}

std::vector<uint8_t> ToGroups(const GroupsSpec& spec, uint16_t devices) {
  std::vector<uint8_t> groups(spec.of.begin(), spec.of.end());
  for (uint16_t d = 0; spec.of.empty() && spec.equal > 1 && d < devices; ++d) {
    groups.push_back(static_cast<uint8_t>(d / (devices / spec.equal)));
  }
  return groups;
}

class ClusterBuilder {
 public:
  explicit ClusterBuilder(const ClusterSpec& spec) : spec_(spec) {}

  Cluster Build() {
    for (const DeviceSpec& device : spec_.devices) AddDevice(device);
    for (const TypeSpec& type : spec_.types) AddType(type);
    if (spec_.fabric.domains.empty()) {
      AddImpliedFabric();
    } else {
      AddFabric();
    }
    for (const NodeSpec& node : spec_.nodes) AddNodes(node);
    if (spec_.fabric.nodes_per_leaf > 0) Group();
    for (const ResourceSpec& spec : spec_.resources) cluster_.resources.push_back({spec.name, spec.count});
    return std::move(cluster_);
  }

 private:
  void AddDevice(const DeviceSpec& spec) {
    DeviceKind kind{.name = spec.name,
                    .memory_mib = spec.memory_mib,
                    .idle_watts = spec.idle_watts,
                    .busy_watts = spec.busy_watts};
    if (spec.partitions.own) {
      kind.layout = static_cast<uint32_t>(cluster_.layouts.size());
      cluster_.layouts.push_back(ToLayout(*spec.partitions.own, spec.name));
    } else if (!spec.partitions.known.empty()) {
      kind.layout = static_cast<uint32_t>(IndexOf(cluster_.layouts, spec.partitions.known));
      if (kind.layout == cluster_.layouts.size()) {
        cluster_.layouts.push_back(*FindKnownLayout(spec.partitions.known));
      }
    }
    cluster_.kinds.push_back(std::move(kind));
  }

  void AddType(const TypeSpec& spec) {
    const size_t kind = spec.count == 0 ? 0 : IndexOf(cluster_.kinds, spec.device);
    cluster_.types.push_back({.name = spec.name,
                              .cpu_milli = spec.cpu_milli,
                              .memory_mib = spec.memory_mib,
                              .kind = static_cast<KindId>(kind),
                              .devices = static_cast<uint8_t>(spec.count),
                              .link_domain = ToGroups(spec.link_domain, spec.count),
                              .numa = ToGroups(spec.numa, spec.count),
                              .idle_watts = spec.idle_watts});
  }

  void AddDomain(Domain domain) {
    domain_ids_.emplace(domain.name, static_cast<DomainId>(cluster_.fabric.domains.size()));
    cluster_.fabric.domains.push_back(std::move(domain));
  }

  void AddFabric() {
    Fabric& fabric = cluster_.fabric;
    fabric.levels = spec_.fabric.levels;
    std::vector<std::string> parents;
    for (const DomainSpec& spec : spec_.fabric.domains) {
      const NamePattern names = *NamePattern::Parse(spec.name);
      const std::vector<std::string> up = ShareOut(spec.parent, names.count());
      const auto level = std::ranges::find(fabric.levels, spec.level) - fabric.levels.begin();
      for (size_t i = 0; i < names.count(); ++i) {
        AddDomain({.name = names.At(i),
                   .level = static_cast<uint8_t>(level),
                   .power_budget_watts = spec.power_budget_watts});
        parents.push_back(up[i]);
      }
    }
    for (size_t d = 0; d < parents.size(); ++d) {
      if (!parents[d].empty()) fabric.domains[d].parent = domain_ids_.at(parents[d]);
    }
  }

  // Leaves that only the nodes name, under one root; without such, one domain for all.
  void AddImpliedFabric() {
    cluster_.fabric = FlatFabric();
    const bool named = !spec_.nodes.empty() && !spec_.nodes.front().domain.empty();
    if (!named) return;
    cluster_.fabric.levels = {"leaf", "cluster"};
    cluster_.fabric.domains.front().level = 1;
    for (const NodeSpec& node : spec_.nodes) {
      const NamePattern names = *NamePattern::Parse(node.domain);
      for (size_t i = 0; i < names.count(); ++i) {
        if (!domain_ids_.contains(names.At(i))) AddDomain({.name = names.At(i), .parent = 0});
      }
    }
  }

  void AddNodes(const NodeSpec& spec) {
    const NamePattern names = *NamePattern::Parse(spec.name);
    const std::vector<std::string> domains = ShareOut(spec.domain, names.count());
    for (size_t i = 0; i < names.count(); ++i) {
      cluster_.nodes.push_back({.name = names.At(i),
                                .type = static_cast<TypeId>(IndexOf(cluster_.types, spec.type)),
                                .domain = domains[i].empty() ? 0 : domain_ids_.at(domains[i]),
                                .labels = spec.labels,
                                .health = spec.health,
                                .power_budget_watts = spec.power_budget_watts});
    }
  }

  void Group() {
    const FabricSpec& fabric = spec_.fabric;
    GroupIntoLeaves(cluster_, static_cast<int>(fabric.nodes_per_leaf),
                    static_cast<int>(fabric.leaves_per_spine));
    const size_t top = cluster_.fabric.levels.size() - 1;
    for (Domain& domain : cluster_.fabric.domains) {
      if (domain.level == top) continue;
      domain.power_budget_watts =
          domain.level == 0 ? fabric.leaf_power_budget_watts : fabric.spine_power_budget_watts;
    }
  }

  const ClusterSpec& spec_;
  Cluster cluster_;
  std::map<std::string, DomainId> domain_ids_;
};

}  // namespace

Loaded<Cluster> ReadCluster(std::string_view text, const std::string& file) {
  conf::Document document(text, file, NoSources(), kLimits);
  ClusterSpec spec;
  if (document.parsed()) {
    conf::Read(document.root(), spec);
    CheckCluster(document, spec);
  }
  Loaded<Cluster> out;
  out.problems = document.TakeProblems();
  if (out.problems.empty()) out.value = ClusterBuilder(spec).Build();
  return out;
}

}  // namespace scheduler::io
