#include "gateway/control/weights/node_weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "conf/text.h"
#include "gateway/log.h"
#include "gateway/store/kinds.h"
#include "plugins/weights/digest.h"

namespace gateway::control {
namespace {

constexpr conf::Duration kBetweenChanges = std::chrono::seconds(2);
constexpr std::string_view kLabelPrefix = "tidegate.io/weights-";
constexpr char kHeld[] = "held";

// The name of a label, which has at most 63 characters.
std::string LabelOfWeights(std::string_view hex) {
  constexpr size_t kDigits = 32;
  return fmt::format("{}{}", kLabelPrefix, hex.substr(0, kDigits));
}

}  // namespace

std::string NodeWeights::BodyOf(const Known& known) {
  return nlohmann::json{{"at_us", conf::ToUnixMicros(known.at)}, {"holds", known.holds}}.dump(
      -1, ' ', false, nlohmann::json::error_handler_t::replace);
}

net::Task<absl::Status> NodeWeights::Load() {
  const absl::StatusOr<store::Listing> listing = co_await store_.List(store::kNodeWeights);
  if (!listing.ok()) co_return listing.status();
  for (const store::Object& object : listing->objects) {
    Known& known = nodes_[object.id];
    known.version = object.version;
    known.saved = true;
    try {
      const nlohmann::json body = nlohmann::json::parse(object.body);
      known.at = conf::FromUnixMicros(body.at("at_us").get<int64_t>());
      known.holds = body.at("holds").get<std::set<std::string>>();
    } catch (const nlohmann::json::exception&) {
      // The node's next fetch says it again.
      log::Warn("the list of weights on a node cannot be read in the store", {{"node", object.id}});
    }
  }
  changed_ = !nodes_.empty();
  co_return absl::OkStatus();
}

void NodeWeights::Listed(const std::string& node, const std::vector<std::string>& holds, conf::TimePoint at) {
  Known& known = nodes_[node];
  if (at < known.at) return;
  std::set<std::string> listed(holds.begin(), holds.end());
  known.at = at;
  if (known.holds == listed) return;
  known.holds = std::move(listed);
  known.saved = false;
  changed_ = true;
}

bool NodeWeights::Holds(const std::string& node, std::string_view digest) const {
  const auto found = nodes_.find(node);
  const std::optional<std::string> hex = plugins::weights::HexOfDigest(digest);
  return hex && found != nodes_.end() && found->second.holds.contains(*hex);
}

std::vector<std::string> NodeWeights::Holders(std::string_view digest) const {
  std::vector<std::string> nodes;
  const std::optional<std::string> hex = plugins::weights::HexOfDigest(digest);
  if (!hex) return nodes;
  for (const auto& [node, known] : nodes_) {
    if (known.holds.contains(*hex)) nodes.push_back(node);
  }
  return nodes;
}

void NodeWeights::Label(scheduler::Cluster& cluster) const {
  for (scheduler::Node& node : cluster.nodes) {
    std::erase_if(node.labels, [](const auto& label) { return label.first.starts_with(kLabelPrefix); });
    const auto known = nodes_.find(node.name);
    if (known == nodes_.end()) continue;
    for (const std::string& hex : known->second.holds) node.labels[LabelOfWeights(hex)] = kHeld;
  }
}

void NodeWeights::Tick() {
  const conf::TimePoint now = context_.now();
  if (now < next_) return;
  next_ = now + kBetweenChanges;
  if (std::exchange(changed_, false)) TellPlanner(now);
  const bool unsaved = std::ranges::any_of(nodes_, [](const auto& one) { return !one.second.saved; });
  if (!unsaved || saving_) return;
  saving_ = true;
  context_.spawn(Save());
}

void NodeWeights::TellPlanner(conf::TimePoint now) {
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

net::Task<void> NodeWeights::Save() {
  constexpr size_t kMostWrites = 64;
  std::vector<store::Write> writes;
  std::vector<std::pair<std::string, conf::TimePoint>> written;
  for (const auto& [node, known] : nodes_) {
    if (known.saved || writes.size() == kMostWrites) continue;
    writes.push_back(
        {.kind = store::kNodeWeights, .id = node, .replaces = known.version, .body = BodyOf(known)});
    written.emplace_back(node, known.at);
  }
  const absl::StatusOr<store::Committed> committed =
      co_await store_.Commit(std::move(writes), context_.shared ? context_.epoch : 0);
  saving_ = false;
  if (!committed.ok()) {
    // Nothing depends on it but where replicas go after a restart; it is tried again.
    log::Warn("the list of weights on nodes is not stored yet",
              {{"why", conf::Std(committed.status().message())}});
    co_return;
  }
  for (size_t i = 0; i < written.size(); ++i) {
    Known& known = nodes_[written[i].first];
    known.version = committed->VersionOf(i);
    known.saved = known.at == written[i].second;
  }
}

scheduler::LabelRule NodeWeights::Preference(std::string_view digest) {
  return {LabelOfWeights(plugins::weights::HexOfDigest(digest).value_or(std::string())), {kHeld}};
}

}  // namespace gateway::control
