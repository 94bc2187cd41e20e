// What the loop does about nodes of a cluster that others use too: it hears what the launcher and replicas
// say of them, asks those that have fallen silent, and has nothing new placed where nothing would start.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "conf/text.h"
#include "gateway/control/loop.h"
#include "gateway/log.h"
#include "gateway/net/clock.h"

namespace gateway::control {
namespace {

constexpr conf::Duration kNodesRetry = std::chrono::seconds(1);
constexpr conf::Duration kLate = std::chrono::seconds(5);  // to come, for a replica
// What still answers, or may be about to, on a node that is not trusted counts for so long as if it were.
constexpr conf::Duration kPatience = std::chrono::seconds(10);

bool Answers(const Replica& replica, conf::TimePoint now) {
  return replica.load->health.Usable() && replica.load->breaker.phase(now) != router::Breaker::Phase::kOpen;
}

}  // namespace

void ControlLoop::WatchNodes(conf::TimePoint now) {
  const plugins::launchers::SharedCluster* const shared = launcher_->shared();
  if (shared == nullptr) return;  // the only node is this machine
  if (std::exchange(watched_version_, shared->version) != shared->version)
    node_watch_.See(shared->nodes, now);
  std::map<std::string, NodeWatch::Runs> runs;
  for (const plugins::launchers::SharedNode& node : shared->nodes) runs[node.name];
  for (const Replica& replica : fleet_.all()) {
    NodeWatch::Runs& on = runs[replica.grant.node];
    const bool serves = replica.state == State::kReady || replica.state == State::kDraining;
    const bool comes =
        replica.state == State::kWarming || (replica.state == State::kLaunching && replica.started);
    if (serves && replica.load) ++on.serving, on.mute += Answers(replica, now) ? 0 : 1;
    if (comes && now - replica.launched > kLate) ++on.late;
  }
  for (const std::string& name : jobs_.LateNodes()) ++runs[name].late;
  for (const auto& [name, on] : runs) node_watch_.Replicas(name, on, now);
  node_watch_.Judge(now);
  for (std::string& name : node_watch_.Due(now)) {
    if (asking_.insert(name).second) loop_.tasks.Spawn(AskNode(std::move(name)));
  }
  if (!telling_ && now >= next_telling_ && node_watch_.suspects() != suspects_)
    loop_.tasks.Spawn(TellOfNodes());
  for (Replica& replica : fleet_.all()) SetAside(replica, now);
}

// Nothing is asked of a node that is not trusted; what it has counts for less and less, and is not ended.
void ControlLoop::SetAside(Replica& replica, conf::TimePoint now) {
  replica.set_aside = false;
  if (replica.grant.node.empty() || replica.state == State::kStopping) return;
  const std::optional<NodeWatch::Doubt> doubt = node_watch_.doubt(replica.grant.node);
  if (!doubt || (doubt->ours && !suspects_.contains(replica.grant.node))) return;
  if (replica.state == State::kLaunching && !replica.started && !replica.busy) {
    Retire(replica, fmt::format("nothing starts on {}: {}", replica.grant.node, doubt->why), now);
    return;
  }
  const bool serves = replica.load && replica.state >= State::kReady;
  const bool mute = serves ? !Answers(replica, now) : doubt->ours;
  replica.set_aside = mute || now - doubt->since >= kPatience;
}

net::Task<void> ControlLoop::AskNode(std::string name) {
  ++under_way_;
  co_await HearNode(name);
  asking_.erase(name);
  --under_way_;
  if (!closing_) Wake();
}

net::Task<void> ControlLoop::HearNode(std::string name) {
  const absl::Status answer = co_await launcher_->AskNode(name);
  const conf::TimePoint now = net::Now();
  if (answer.ok()) {
    node_watch_.Answered(name, now);
  } else if (absl::IsUnavailable(answer)) {
    node_watch_.Silent(name, std::string(conf::Std(answer.message())), now);
  } else if (absl::IsUnimplemented(answer)) {
    node_watch_.CannotBeAsked(name);
  }
}

// OK, or why nothing is to be started there just now.
net::Task<absl::Status> ControlLoop::MayStartOn(std::string name) {
  if (launcher_->shared() == nullptr) co_return absl::OkStatus();
  if (node_watch_.ShouldAsk(name, net::Now())) co_await HearNode(name);
  if (const std::string other = node_watch_.ToCompare(name, net::Now());
      !other.empty() && node_watch_.IsSilent(name))
    co_await HearNode(other);
  const std::string why = node_watch_.WhyNoLaunch(name, net::Now());
  if (why.empty()) co_return absl::OkStatus();
  co_return absl::UnavailableError(fmt::format("nothing starts on {}: {}", name, why));
}

// The planner is told once it is in the ledger.
net::Task<void> ControlLoop::TellOfNodes() {
  telling_ = true;
  ++under_way_;
  const std::set<std::string> suspects = node_watch_.suspects();
  std::set<std::string> changed;
  std::ranges::set_symmetric_difference(suspects, suspects_, std::inserter(changed, changed.end()));
  for (const std::string& name : changed) {
    const bool suspect = suspects.contains(name);
    const std::optional<NodeWatch::Doubt> doubt = node_watch_.doubt(name);
    const std::string why = suspect ? doubt ? doubt->why : "it has fallen silent" : "it answers again";
    ledger::Event event;
    event.kind = ledger::Kind::kAction;
    event.action = suspect ? "node.suspect" : "node.trust";
    event.actor = "control";
    event.subject = name;
    event.detail = nlohmann::ordered_json({{"reason", why}})
                       .dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
    const absl::Status recorded = co_await around_.record(std::move(event));
    if (!recorded.ok()) {
      log::Error("what is known of a node is not recorded, and not acted on; it is tried again",
                 {{"node", name}, {"why", conf::Std(recorded.message())}});
      next_telling_ = net::Now() + kNodesRetry;
      break;
    }
    log::Warn(suspect ? "node not trusted" : "node trusted again", {{"node", name}, {"why", why}});
    suspect ? (void)suspects_.insert(name) : (void)suspects_.erase(name);
    ++suspects_version_;
  }
  telling_ = false;
  --under_way_;
  if (!closing_) Wake();
}

// As the planner is to see them: those that we do not trust take nothing new.
void ControlLoop::SeeNodes(conf::TimePoint now) {
  const plugins::launchers::SharedCluster* const shared = launcher_->shared();
  if (shared == nullptr || (seen_ == std::pair(shared->version, suspects_version_))) return;
  seen_ = {shared->version, suspects_version_};
  std::vector<plugins::launchers::SharedNode> nodes = shared->nodes;
  for (plugins::launchers::SharedNode& node : nodes) {
    if (node.health == scheduler::Health::kHealthy && suspects_.contains(node.name))
      node.health = scheduler::Health::kSuspect;
  }
  planning_.See(nodes, now);
  if (left_out_ == shared->left_out) return;
  left_out_ = shared->left_out;
  for (const std::string& what : left_out_)
    log::Warn("cannot be used", {{"launcher", launcher_->name()}, {"what", what}});
}

std::vector<NodeStatus> ControlLoop::Doubts() const {
  std::vector<NodeStatus> doubts;
  for (const scheduler::Node& node : planning_.cluster().nodes) {
    const std::optional<NodeWatch::Doubt> doubt = node_watch_.doubt(node.name);
    if (doubt)
      doubts.push_back({.node = node.name, .since = doubt->since, .why = doubt->why, .ours = doubt->ours});
  }
  return doubts;
}

// For who waits.
std::vector<std::string> ControlLoop::InWords() const {
  constexpr size_t kMost = 4;
  const std::vector<NodeStatus> doubts = Doubts();
  std::vector<std::string> sentences;
  for (size_t i = 0; i < std::min(doubts.size(), kMost); ++i)
    sentences.push_back(fmt::format("{} takes nothing new: {}.", doubts[i].node, doubts[i].why));
  if (doubts.size() > kMost) sentences.push_back(fmt::format("Nor do {} others.", doubts.size() - kMost));
  return sentences;
}

}  // namespace gateway::control
