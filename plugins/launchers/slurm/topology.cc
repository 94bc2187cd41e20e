#include "plugins/launchers/slurm/topology.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "conf/text.h"
#include "plugins/launchers/slurm/hostlist.h"

namespace plugins::launchers::slurm {
namespace {

constexpr size_t kMaxSwitches = 10'000;
constexpr size_t kMaxHeight = 16;
constexpr std::string_view kBlank = " \t\r";

std::string_view TakeLine(std::string_view& text) {
  const size_t end = text.find('\n');
  const std::string_view line = text.substr(0, end);
  text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  return line.substr(0, line.find('#'));
}

// The next word between blanks; empty: there is none.
std::string_view TakeWord(std::string_view& line) {
  line.remove_prefix(std::min(line.size(), line.find_first_not_of(kBlank)));
  const std::string_view word = line.substr(0, line.find_first_of(kBlank));
  line.remove_prefix(word.size());
  return word;
}

absl::Status Wrong(size_t line, std::string_view what) {
  return absl::InvalidArgumentError(fmt::format("topology.conf:{}: {}", line, what));
}

// The number of levels of switches below each; nothing if one is its own ancestor.
class Heights {
 public:
  explicit Heights(const std::vector<Switch>& switches)
      : switches_(switches), heights_(switches.size(), kUnknown) {
    for (size_t i = 0; i < switches.size(); ++i) index_[switches[i].name] = i;
  }
  // kMaxHeight or more: too high, or endless.
  size_t Of(size_t at, size_t depth = 0) {
    if (depth >= kMaxHeight) return kMaxHeight;
    if (heights_[at] != kUnknown) return heights_[at];
    size_t height = 0;
    for (const std::string& below : switches_[at].switches) {
      height = std::max(height, Of(index_.at(below), depth + 1) + 1);
      if (height >= kMaxHeight) return kMaxHeight;
    }
    return heights_[at] = height;
  }
  bool Has(const std::string& name) const { return index_.contains(name); }
  size_t Find(const std::string& name) const { return index_.at(name); }

 private:
  static constexpr size_t kUnknown = SIZE_MAX;
  const std::vector<Switch>& switches_;
  std::map<std::string, size_t> index_;
  std::vector<size_t> heights_;
};

// "leaf", "spine", ..., "cluster".
std::vector<std::string> LevelNames(size_t heights) {
  std::vector<std::string> names;
  names.reserve(heights + 1);
  for (size_t i = 0; i < heights; ++i) {
    names.push_back(i == 0 ? "leaf" : i == 1 ? "spine" : fmt::format("spine-{}", i));
  }
  names.emplace_back("cluster");
  return names;
}

}  // namespace

absl::StatusOr<std::vector<Switch>> ReadTopology(std::string_view text) {
  std::vector<Switch> switches;
  for (size_t number = 1; !text.empty(); ++number) {
    std::string_view line = TakeLine(text);
    Switch read;
    bool any = false;
    for (std::string_view word = TakeWord(line); !word.empty(); word = TakeWord(line)) {
      any = true;
      const size_t equals = word.find('=');
      if (equals == std::string_view::npos)
        return Wrong(number, fmt::format("\"{}\" is not KEY=VALUE", word));
      const std::string_view key = word.substr(0, equals);
      const std::string_view value = word.substr(equals + 1);
      if (conf::EqualsIgnoreCase(key, "SwitchName")) {
        read.name = value;
      } else if (conf::EqualsIgnoreCase(key, "Nodes") || conf::EqualsIgnoreCase(key, "Switches")) {
        auto names = ExpandHosts(value);
        if (!names.ok()) return Wrong(number, conf::Std(names.status().message()));
        (conf::EqualsIgnoreCase(key, "Nodes") ? read.nodes : read.switches) = *std::move(names);
      } else if (!conf::EqualsIgnoreCase(key, "LinkSpeed")) {
        return Wrong(number, fmt::format("unknown key \"{}\"", key));
      }
    }
    if (!any) continue;
    if (read.name.empty()) return Wrong(number, "has no SwitchName");
    if (read.nodes.empty() == read.switches.empty()) return Wrong(number, "needs either Nodes or Switches");
    if (switches.size() == kMaxSwitches) return Wrong(number, "more than 10000 switches");
    switches.push_back(std::move(read));
  }
  Heights heights(switches);
  std::map<std::string, std::string> parent;
  for (const Switch& above : switches) {
    for (const std::string& below : above.switches) {
      if (!heights.Has(below)) {
        return absl::InvalidArgumentError(fmt::format("topology.conf: switch {} does not exist", below));
      }
    }
    for (const std::vector<std::string>* names : {&above.switches, &above.nodes}) {
      for (const std::string& below : *names) {
        const std::string key = fmt::format("{} {}", names == &above.nodes ? "node" : "switch", below);
        if (const auto [first, added] = parent.emplace(key, above.name); !added) {
          return absl::InvalidArgumentError(
              fmt::format("topology.conf: {} is under both {} and {}", key, first->second, above.name));
        }
      }
    }
  }
  for (size_t i = 0; i < switches.size(); ++i) {
    if (heights.Find(switches[i].name) != i) {
      return absl::InvalidArgumentError(fmt::format("topology.conf: two switches {}", switches[i].name));
    }
    if (heights.Of(i) >= kMaxHeight) {
      return absl::InvalidArgumentError(
          fmt::format("topology.conf: switch {} is its own ancestor, or too high", switches[i].name));
    }
  }
  return switches;
}

void ApplyTopology(const std::vector<Switch>& switches, scheduler::Cluster& cluster) {
  cluster.fabric = scheduler::FlatFabric();
  for (scheduler::Node& node : cluster.nodes) node.domain = 0;
  if (switches.empty()) return;
  Heights heights(switches);
  size_t levels = 0;
  for (size_t i = 0; i < switches.size(); ++i) levels = std::max(levels, heights.Of(i) + 1);
  scheduler::Fabric fabric;
  fabric.levels = LevelNames(levels);
  const auto root = static_cast<scheduler::DomainId>(switches.size());
  std::map<std::string, scheduler::DomainId> leaf_of;
  fabric.domains.reserve(switches.size() + 1);
  for (size_t i = 0; i < switches.size(); ++i) {
    fabric.domains.push_back(
        {.name = switches[i].name, .level = static_cast<uint8_t>(heights.Of(i)), .parent = root});
    for (const std::string& node : switches[i].nodes) leaf_of[node] = static_cast<scheduler::DomainId>(i);
  }
  for (size_t i = 0; i < switches.size(); ++i) {
    for (const std::string& below : switches[i].switches)
      fabric.domains[heights.Find(below)].parent = static_cast<scheduler::DomainId>(i);
  }
  fabric.domains.push_back({.name = "cluster", .level = static_cast<uint8_t>(levels)});
  cluster.fabric = std::move(fabric);
  for (scheduler::Node& node : cluster.nodes) {
    const auto leaf = leaf_of.find(node.name);
    node.domain = leaf == leaf_of.end() ? root : leaf->second;
  }
}

}  // namespace plugins::launchers::slurm
