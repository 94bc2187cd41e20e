#include <absl/container/flat_hash_map.h>
#include <fmt/format.h>

#include <algorithm>

#include "conf/text.h"
#include "scheduler/io/bounds.h"
#include "scheduler/io/cluster_spec.h"
#include "scheduler/io/name_pattern.h"
#include "scheduler/state/partitions.h"

namespace scheduler::io {
namespace {

constexpr size_t kNodeHints =
    200;  // problems until which names are suggested: it takes a look at all of them
constexpr std::string_view kPatternForm =
    "is not a name or a pattern such as gpu-{001..064}, of at most 256 bytes";

// The names of one list, each with where it was given first.
class NameList {
 public:
  NameList(conf::Document& document, std::string_view noun) : document_(document), noun_(noun) {}

  void Add(const std::string& name, const std::string& pointer) {
    if (name.empty()) return;
    const auto [first, added] = where_.try_emplace(name, pointer);
    if (added) return;
    document_.AddAt(pointer, name,
                    fmt::format("{} \"{}\" is given twice, first at {}", noun_, name, first->second));
  }

  bool Has(const std::string& name) const { return where_.contains(name); }

  void Expect(const std::string& name, const std::string& pointer) const {
    if (name.empty() || Has(name)) return;
    std::vector<std::string_view> names;
    if (document_.problem_count() < kNodeHints) {
      for (const auto& [known, at] : where_) names.push_back(known);
    }
    std::ranges::sort(names);
    document_.AddAt(pointer, name,
                    fmt::format("unknown {} \"{}\"{}", noun_, name, conf::DidYouMean(name, names)));
  }

  size_t size() const { return where_.size(); }

 private:
  conf::Document& document_;
  std::string_view noun_;
  absl::flat_hash_map<std::string, std::string> where_;
};

class ClusterCheck {
 public:
  ClusterCheck(conf::Document& document, const ClusterSpec& spec)
      : document_(document),
        spec_(spec),
        devices_(document, "device kind"),
        types_(document, "node type"),
        levels_(document, "fabric level"),
        domains_(document, "fabric domain"),
        nodes_(document, "node") {}

  void Run() {
    CheckDevices();
    CheckTypes();
    CheckFabric();
    CheckNodes();
    NameList resources(document_, "resource");
    for (size_t i = 0; i < spec_.resources.size(); ++i)
      resources.Add(spec_.resources[i].name, fmt::format("/resources/{}/name", i));
  }

 private:
  void Report(const std::string& pointer, std::string_view value, const std::string& message) {
    document_.AddAt(pointer, value, message);
  }

  void CheckDevices() {
    if (spec_.devices.size() > kMaxKinds) {
      Report("/devices", "", fmt::format("{} device kinds, at most {} fit", spec_.devices.size(), kMaxKinds));
    }
    const std::vector<std::string_view> known = KnownLayoutNames();
    for (size_t i = 0; i < spec_.devices.size(); ++i) {
      const DeviceSpec& device = spec_.devices[i];
      const std::string pointer = fmt::format("/devices/{}", i);
      devices_.Add(device.name, pointer + "/name");
      if (device.memory_mib > INT32_MAX) {
        Report(pointer + "/memory", "", fmt::format("must be at most {}MiB", INT32_MAX));
      }
      const std::string& layout = device.partitions.known;
      if (!layout.empty() && FindKnownLayout(layout) == nullptr) {
        std::string hint = conf::DidYouMean(layout, known);
        if (hint.empty()) hint = fmt::format(", expected one of {}", fmt::join(known, ", "));
        Report(pointer + "/partitions", layout,
               fmt::format("unknown partition layout \"{}\"{}", layout, hint));
      }
      if (device.partitions.own) CheckLayout(*device.partitions.own, pointer + "/partitions");
    }
  }

  void CheckLayout(const LayoutSpec& layout, const std::string& pointer) {
    NameList names(document_, "partition profile");
    for (size_t i = 0; i < layout.profiles.size(); ++i) {
      const ProfileSpec& profile = layout.profiles[i];
      const std::string at = fmt::format("{}/profiles/{}", pointer, i);
      names.Add(profile.name, at + "/name");
      if (layout.compute != 0 && profile.compute > layout.compute) {
        Report(at + "/compute", fmt::format("{}", profile.compute),
               fmt::format("must be at most the layout's compute, {}", layout.compute));
      }
      for (size_t s = 0; layout.slots != 0 && s < profile.starts.size(); ++s) {
        if (profile.starts[s] + profile.slots <= layout.slots) continue;
        Report(fmt::format("{}/starts/{}", at, s), fmt::format("{}", profile.starts[s]),
               fmt::format("{} slots from {} reach beyond the layout's {}", profile.slots, profile.starts[s],
                           layout.slots));
      }
    }
  }

  void CheckGroups(const GroupsSpec& groups, const TypeSpec& type, const std::string& pointer) {
    if (!groups.of.empty() && groups.of.size() != type.count) {
      Report(pointer, "", fmt::format("names {} devices, the node has {}", groups.of.size(), type.count));
    }
    for (const uint16_t group : groups.of) {
      if (group >= kMaxDevices) {
        Report(pointer, "", fmt::format("group {} is not below {}", group, kMaxDevices));
      }
    }
    if (groups.equal == 0 || (type.count > 0 && type.count % groups.equal != 0)) {
      Report(pointer, "",
             fmt::format("{} devices do not divide into {} groups of equal size; list the group of each",
                         type.count, groups.equal));
    }
  }

  void CheckTypes() {
    if (spec_.types.size() > kMostTypes) {
      Report("/types", "", fmt::format("{} node types, at most {} fit", spec_.types.size(), kMostTypes));
    }
    for (size_t i = 0; i < spec_.types.size(); ++i) {
      const TypeSpec& type = spec_.types[i];
      const std::string pointer = fmt::format("/types/{}", i);
      types_.Add(type.name, pointer + "/name");
      devices_.Expect(type.device, pointer + "/device");
      if (type.device.empty() != (type.count == 0)) {
        Report(pointer, "",
               "device and count belong together: give both, or neither for a node without devices");
        continue;
      }
      CheckGroups(type.link_domain, type, pointer + "/link_domain");
      CheckGroups(type.numa, type, pointer + "/numa");
    }
  }

  void CheckFabric() {
    const FabricSpec& fabric = spec_.fabric;
    if (fabric.levels.size() > kMostLevels) {
      Report("/fabric/levels", "",
             fmt::format("{} levels, at most {} fit", fabric.levels.size(), kMostLevels));
    }
    for (size_t i = 0; i < fabric.levels.size(); ++i) {
      levels_.Add(fabric.levels[i], fmt::format("/fabric/levels/{}", i));
    }
    if (fabric.nodes_per_leaf > 0 && !fabric.domains.empty()) {
      Report("/fabric/nodes_per_leaf", "", "cannot be given together with domains");
    }
    if (fabric.nodes_per_leaf == 0) {
      if (fabric.leaves_per_spine > 0) Report("/fabric/leaves_per_spine", "", "needs nodes_per_leaf");
      if (fabric.leaf_power_budget_watts > 0 || fabric.spine_power_budget_watts > 0) {
        Report("/fabric", "", "power budgets of leaves and spines need nodes_per_leaf; give them to domains");
      }
    } else if (fabric.leaves_per_spine == 0 && fabric.spine_power_budget_watts > 0) {
      Report("/fabric/spine_power_budget_watts", "", "needs leaves_per_spine");
    }
    if (fabric.domains.empty() != fabric.levels.empty()) {
      Report("/fabric", "", "levels and domains belong together: give both or neither");
      return;
    }
    CheckDomains();
  }

  void CheckDomains() {
    const std::vector<DomainSpec>& domains = spec_.fabric.domains;
    absl::flat_hash_map<std::string, size_t> level_of;
    size_t roots = 0;
    for (size_t i = 0; i < domains.size(); ++i) {
      const std::string pointer = fmt::format("/fabric/domains/{}", i);
      levels_.Expect(domains[i].level, pointer + "/level");
      const std::vector<std::string> names = Expand(domains[i].name, pointer + "/name");
      if (domains_.size() + names.size() > kMostNodes) {
        return Report(pointer + "/name", domains[i].name,
                      fmt::format("makes more than {} domains", kMostNodes));
      }
      for (const std::string& name : names) {
        domains_.Add(name, pointer + "/name");
        level_of.try_emplace(name, LevelOf(domains[i].level));
        roots += domains[i].parent.empty();
      }
    }
    for (size_t i = 0; i < domains.size(); ++i) {
      const std::string pointer = fmt::format("/fabric/domains/{}/parent", i);
      const size_t level = LevelOf(domains[i].level);
      for (const std::string& parent : ExpandFor(domains[i].parent, domains[i].name, pointer)) {
        domains_.Expect(parent, pointer);
        const auto at = level_of.find(parent);
        if (at == level_of.end() || at->second > level) continue;
        Report(
            pointer, parent,
            fmt::format("its parent \"{}\" is not of a higher level; levels rise from the nodes to the root",
                        parent));
        break;
      }
    }
    if (!domains.empty() && roots != 1) {
      Report("/fabric/domains", "", fmt::format("{} domains have no parent, exactly one is the root", roots));
    }
  }

  void CheckNodes() {
    size_t total = 0;
    size_t with_domain = 0;
    for (size_t i = 0; i < spec_.nodes.size(); ++i) {
      const NodeSpec& node = spec_.nodes[i];
      const std::string pointer = fmt::format("/nodes/{}", i);
      types_.Expect(node.type, pointer + "/type");
      with_domain += !node.domain.empty();
      const std::vector<std::string> names = Expand(node.name, pointer + "/name");
      total += names.size();
      if (total > kMostNodes) {
        Report(pointer + "/name", node.name, fmt::format("makes more than {} nodes", kMostNodes));
        return;
      }
      for (const std::string& name : names) nodes_.Add(name, pointer + "/name");
      CheckDomainOf(node, pointer + "/domain");
    }
    if (spec_.fabric.domains.empty() && with_domain > 0 && with_domain < spec_.nodes.size()) {
      Report("/nodes", "", "some nodes have a domain and some have none: give all of them one");
    }
  }

  void CheckDomainOf(const NodeSpec& node, const std::string& pointer) {
    if (node.domain.empty()) {
      if (!spec_.fabric.domains.empty()) {
        Report(pointer, "", "is required, as the fabric's domains are given");
      }
      return;
    }
    if (spec_.fabric.nodes_per_leaf > 0) {
      Report(pointer, node.domain, "cannot be given together with the fabric's nodes_per_leaf");
      return;
    }
    for (const std::string& domain : ExpandFor(node.domain, node.name, pointer)) {
      if (spec_.fabric.domains.empty() || domains_.Has(domain)) continue;
      domains_.Expect(domain, pointer);
      break;
    }
  }

  size_t LevelOf(const std::string& level) const {
    return static_cast<size_t>(std::ranges::find(spec_.fabric.levels, level) - spec_.fabric.levels.begin());
  }

  std::vector<std::string> Expand(const std::string& pattern, const std::string& pointer) {
    std::vector<std::string> names;
    if (pattern.empty()) return names;
    const auto parsed = NamePattern::Parse(pattern);
    if (!parsed) {
      Report(pointer, pattern, fmt::format("\"{}\" {}", pattern, kPatternForm));
    } else if (parsed->count() > kMostNodes) {
      Report(pointer, pattern, fmt::format("makes {} names, at most {} fit", parsed->count(), kMostNodes));
    } else {
      for (size_t i = 0; i < parsed->count(); ++i) names.push_back(parsed->At(i));
    }
    return names;
  }

  // The names that those of `whose` are shared out to; checks that they divide.
  std::vector<std::string> ExpandFor(const std::string& pattern, const std::string& whose,
                                     const std::string& pointer) {
    std::vector<std::string> names = Expand(pattern, pointer);
    const auto owners = NamePattern::Parse(whose);
    if (names.size() > 1 && owners && owners->count() % names.size() != 0) {
      Report(pointer, pattern,
             fmt::format("{} names do not divide among {}; split the entry", owners->count(), names.size()));
    }
    return names;
  }

  conf::Document& document_;
  const ClusterSpec& spec_;
  NameList devices_;
  NameList types_;
  NameList levels_;
  NameList domains_;
  NameList nodes_;
};

}  // namespace

void CheckCluster(conf::Document& document, const ClusterSpec& spec) {
  ClusterCheck(document, spec).Run();
}

}  // namespace scheduler::io
