#include "gateway/control/node_weights.h"

#include <fmt/format.h>

#include <algorithm>

#include "gateway/log.h"
#include "plugins/weights/digest.h"

namespace gateway::control {
namespace {

constexpr conf::Duration kBetweenChanges = std::chrono::seconds(2);
constexpr std::string_view kLabelPrefix = "tidegate.io/weights-";
constexpr char kHeld[] = "held";

// Of a label: a name has 63 characters.
std::string LabelOfWeights(std::string_view hex) {
  constexpr size_t kDigits = 32;
  return fmt::format("{}{}", kLabelPrefix, hex.substr(0, kDigits));
}

}  // namespace

void NodeWeights::Listed(const std::string& node, const std::vector<std::string>& holds) {
  std::set<std::string> listed(holds.begin(), holds.end());
  std::set<std::string>& known = holds_[node];
  if (known == listed) return;
  known = std::move(listed);
  changed_ = true;
}

bool NodeWeights::Holds(const std::string& node, std::string_view digest) const {
  const auto found = holds_.find(node);
  const std::optional<std::string> hex = plugins::weights::HexOfDigest(digest);
  return hex && found != holds_.end() && found->second.contains(*hex);
}

size_t NodeWeights::HoldersOf(std::string_view digest) const {
  return static_cast<size_t>(
      std::ranges::count_if(holds_, [&](const auto& of) { return Holds(of.first, digest); }));
}

void NodeWeights::Label(scheduler::Cluster& cluster) const {
  for (scheduler::Node& node : cluster.nodes) {
    std::erase_if(node.labels, [](const auto& label) { return label.first.starts_with(kLabelPrefix); });
    const auto held = holds_.find(node.name);
    if (held == holds_.end()) continue;
    for (const std::string& hex : held->second) node.labels[LabelOfWeights(hex)] = kHeld;
  }
}

void NodeWeights::Tick() {
  const conf::TimePoint now = context_.now();
  if (!changed_ || now < next_) return;
  changed_ = false;
  next_ = now + kBetweenChanges;
  scheduler::Cluster labelled = context_.cluster();
  Label(labelled);
  const scheduler::ClusterChange change = context_.planning->CompareCluster(labelled, workloads_.Holdings());
  if (!change.any()) return;
  if (const std::string defect = scheduler::FirstDefect(change.cluster); !defect.empty()) {
    log::Error("the planner is not told which nodes hold weights", {{"why", defect}});
    return;
  }
  context_.planning->UpdateCluster(change, now);
  workloads_.Renumber(change.places);
  on_change_();
}

scheduler::LabelRule NodeWeights::Preference(std::string_view digest) {
  return {LabelOfWeights(plugins::weights::HexOfDigest(digest).value_or(std::string())), {kHeld}};
}

}  // namespace gateway::control
