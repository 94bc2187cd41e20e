#include "gateway/control/nodes/node_trust.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "conf/text.h"
#include "gateway/log.h"

namespace gateway::control {
namespace {

constexpr conf::Duration kNodesRetry = std::chrono::seconds(1);

}  // namespace

void NodeTrust::Tick() {
  const plugins::launchers::SharedCluster* const shared = context_.launcher->shared();
  if (shared == nullptr) return;  // the only node is this machine
  const conf::TimePoint now = context_.now();
  if (std::exchange(watched_version_, shared->version) != shared->version) watch_.Update(shared->nodes, now);
  std::map<std::string, NodeWatch::Runs> runs;
  for (const plugins::launchers::SharedNode& node : shared->nodes) runs[node.name];
  count_runs_(runs);
  for (const auto& [name, on] : runs) watch_.Replicas(name, on, now);
  watch_.Evaluate(now);
  for (std::string& name : watch_.Due(now)) {
    if (asking_.insert(name).second) context_.spawn(Ask(std::move(name)));
  }
  if (!recording_ && now >= next_recording_ && watch_.suspects() != suspects_)
    context_.spawn(RecordChanges());
}

net::Task<void> NodeTrust::Ask(std::string node) {
  ++under_way_;
  co_await Probe(node);
  asking_.erase(node);
  --under_way_;
  context_.wake();
}

net::Task<void> NodeTrust::Probe(std::string node) {
  const absl::Status answer = co_await context_.launcher->AskNode(node);
  const conf::TimePoint now = context_.now();
  if (answer.ok()) {
    watch_.Answered(node, now);
  } else if (absl::IsUnavailable(answer)) {
    watch_.Silent(node, std::string(conf::Std(answer.message())), now);
  } else if (absl::IsUnimplemented(answer)) {
    watch_.CannotBeAsked(node);
  }
}

net::Task<absl::Status> NodeTrust::MayStartOn(std::string node) {
  if (context_.launcher->shared() == nullptr) co_return absl::OkStatus();
  if (watch_.ShouldAsk(node, context_.now())) co_await Probe(node);
  if (const std::string other = watch_.ToCompare(node, context_.now());
      !other.empty() && watch_.IsSilent(node))
    co_await Probe(other);
  const std::string why = watch_.WhyNoLaunch(node, context_.now());
  if (why.empty()) co_return absl::OkStatus();
  co_return absl::UnavailableError(fmt::format("nothing starts on {}: {}", node, why));
}

net::Task<void> NodeTrust::RecordChanges() {
  recording_ = true;
  ++under_way_;
  const std::set<std::string> suspects = watch_.suspects();
  std::set<std::string> changed;
  std::ranges::set_symmetric_difference(suspects, suspects_, std::inserter(changed, changed.end()));
  for (const std::string& name : changed) {
    const bool suspect = suspects.contains(name);
    const std::optional<NodeWatch::Doubt> doubt = watch_.doubt(name);
    const std::string why = suspect ? doubt ? doubt->why : "it has fallen silent" : "it answers again";
    ledger::Event event;
    event.kind = ledger::Kind::kAction;
    event.action = suspect ? "node.suspect" : "node.trust";
    event.actor = "control";
    event.subject = name;
    event.detail = nlohmann::ordered_json({{"reason", why}})
                       .dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
    const absl::Status recorded = co_await context_.record(std::move(event));
    if (!recorded.ok()) {
      log::Error("a node's change of trust cannot be recorded, so it is not applied yet; retrying",
                 {{"node", name}, {"why", conf::Std(recorded.message())}});
      next_recording_ = context_.now() + kNodesRetry;
      break;
    }
    log::Warn(suspect ? "node not trusted" : "node trusted again", {{"node", name}, {"why", why}});
    suspect ? (void)suspects_.insert(name) : (void)suspects_.erase(name);
    ++suspects_version_;
  }
  recording_ = false;
  --under_way_;
  context_.wake();
}

// Nodes without trust get no new work.
void NodeTrust::UpdatePlanner() {
  const plugins::launchers::SharedCluster* const shared = context_.launcher->shared();
  if (shared == nullptr || (told_ == std::pair(shared->version, suspects_version_))) return;
  told_ = {shared->version, suspects_version_};
  std::vector<plugins::launchers::SharedNode> nodes = shared->nodes;
  for (plugins::launchers::SharedNode& node : nodes) {
    if (node.health == scheduler::Health::kHealthy && suspects_.contains(node.name))
      node.health = scheduler::Health::kSuspect;
  }
  context_.planning->UpdateNodes(nodes, context_.now());
  if (left_out_ == shared->left_out) return;
  left_out_ = shared->left_out;
  for (const std::string& what : left_out_)
    log::Warn("cannot be used", {{"launcher", context_.launcher->name()}, {"what", what}});
}

std::optional<NodeWatch::Doubt> NodeTrust::DoubtOf(const std::string& node) const {
  std::optional<NodeWatch::Doubt> doubt = watch_.doubt(node);
  if (doubt && doubt->ours && !suspects_.contains(node)) return std::nullopt;
  return doubt;
}

std::vector<NodeStatus> NodeTrust::Rows() const {
  std::vector<NodeStatus> rows;
  for (const scheduler::Node& node : context_.cluster().nodes) {
    const std::optional<NodeWatch::Doubt> doubt = watch_.doubt(node.name);
    if (doubt)
      rows.push_back({.node = node.name, .since = doubt->since, .why = doubt->why, .ours = doubt->ours});
  }
  return rows;
}

std::vector<std::string> NodeTrust::InWords() const {
  constexpr size_t kMost = 4;
  const std::vector<NodeStatus> rows = Rows();
  std::vector<std::string> sentences;
  for (size_t i = 0; i < std::min(rows.size(), kMost); ++i)
    sentences.push_back(fmt::format("{} takes no new work: {}.", rows[i].node, rows[i].why));
  if (rows.size() > kMost)
    sentences.push_back(fmt::format("{} other nodes take no new work either.", rows.size() - kMost));
  return sentences;
}

}  // namespace gateway::control
