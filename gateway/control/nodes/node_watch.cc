#include "gateway/control/nodes/node_watch.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace gateway::control {

using scheduler::Health;

const NodeWatch::Node* NodeWatch::Find(const std::string& node) const {
  const auto found = nodes_.find(node);
  return found == nodes_.end() ? nullptr : &found->second;
}

NodeWatch::Node* NodeWatch::Get(const std::string& node) {
  const auto found = nodes_.find(node);
  return found == nodes_.end() ? nullptr : &found->second;
}

void NodeWatch::Update(const std::vector<plugins::launchers::SharedNode>& nodes, conf::TimePoint now) {
  std::set<std::string> there;
  for (const plugins::launchers::SharedNode& seen : nodes) {
    there.insert(seen.name);
    const auto [at, added] = nodes_.try_emplace(seen.name);
    Node& node = at->second;
    if (added || node.said != seen.health) node.said_since = now;
    node.said = seen.health;
    node.said_why = seen.why;
    node.leaving = seen.leaving;
  }
  std::erase_if(nodes_, [&](const auto& entry) {
    const bool gone = !there.contains(entry.first);
    if (gone && entry.second.suspect) --suspects_;
    return gone;
  });
}

void NodeWatch::Answered(const std::string& name, conf::TimePoint now) {
  Node* const node = Get(name);
  if (node == nullptr) return;
  node->asked = node->answered = now;
  node->silent.reset();
}

void NodeWatch::Silent(const std::string& name, std::string why, conf::TimePoint now) {
  Node* const node = Get(name);
  if (node == nullptr) return;
  // A silence long after the last one is a new silence.
  if (!node->silent || now - *node->still_silent > kCompare) node->silent = now;
  node->asked = node->still_silent = now;
  node->silent_why = std::move(why);
}

void NodeWatch::CannotBeAsked(const std::string& name) {
  if (Node* const node = Get(name)) node->can_be_asked = false;
}

void NodeWatch::Replicas(const std::string& name, Runs runs, conf::TimePoint now) {
  Node* const node = Get(name);
  if (node == nullptr) return;
  node->runs = runs;
  if (runs.serving == 0 || runs.mute < runs.serving) {
    node->all_mute.reset();
  } else if (!node->all_mute) {
    node->all_mute = now;
  }
}

bool NodeWatch::AnotherAnswers(const std::string& node, conf::TimePoint now) const {
  return std::ranges::any_of(nodes_, [&](const auto& entry) {
    return entry.first != node && entry.second.answered && now - *entry.second.answered <= kCompare;
  });
}

void NodeWatch::Suspect(Node& node, std::string why, bool by_replicas, conf::TimePoint now) {
  if (2 * (suspects_ + 1) > nodes_.size()) return;
  if (node.times > 0 && now - node.since > kForgiven) node.times = 0;
  conf::Duration pause = kFirst;
  for (uint32_t i = 0; i < node.times && pause < kLongest; ++i) pause = std::min(2 * pause, kLongest);
  ++node.times;
  ++suspects_;
  ++suspicions_;
  node.suspect = true;
  node.by_replicas = by_replicas;
  node.why = std::move(why);
  node.since = now;
  node.until = now + pause;
}

void NodeWatch::Evaluate(conf::TimePoint now) {
  for (auto& [name, node] : nodes_) {
    if (node.suspect) {
      if (now < node.until) continue;
      const bool answers = node.can_be_asked && !node.by_replicas
                               ? node.answered && *node.answered > node.since
                               : !node.all_mute;
      if (!answers) continue;
      node.suspect = false;
      node.since = now;
      --suspects_;
    } else if (node.silent && *node.still_silent - *node.silent >= kConfirm) {
      if (AnotherAnswers(name, now)) Suspect(node, node.silent_why, false, now);
    } else if (!node.can_be_asked && node.all_mute && node.runs.serving >= 2 &&
               now - *node.all_mute >= kMute) {
      Suspect(node, fmt::format("none of its {} replicas answers", node.runs.serving), true, now);
    }
  }
}

std::string NodeWatch::ToCompare(const std::string& of, conf::TimePoint now) const {
  if (AnotherAnswers(of, now)) return {};
  for (const auto& [name, node] : nodes_) {
    const bool asked = node.asked && now - *node.asked < kAskAgain;
    if (name != of && !asked && node.can_be_asked && !node.suspect && node.said == Health::kHealthy)
      return name;
  }
  return {};
}

std::vector<std::string> NodeWatch::Due(conf::TimePoint now) const {
  std::set<std::string> due;
  for (const auto& [name, node] : nodes_) {
    if (!node.can_be_asked || node.said == Health::kQuarantined) continue;
    const auto not_since = [&](conf::Duration pause) { return !node.asked || now - *node.asked >= pause; };
    if (node.suspect) {
      if (now + kAskAgain >= node.until && not_since(kAskAgain)) due.insert(name);
    } else if (node.silent && *node.still_silent - *node.silent < kConfirm) {
      if (not_since(kConfirm)) due.insert(name);
    } else if (node.silent) {
      if (not_since(kAskAgain)) due.insert(name);
    } else if (node.runs.mute + node.runs.late > 0) {
      if (not_since(kAskRuns)) due.insert(name);
    }
    if (!node.suspect && node.silent) {
      if (std::string other = ToCompare(name, now); !other.empty()) due.insert(std::move(other));
    }
  }
  return {due.begin(), due.end()};
}

bool NodeWatch::ShouldAsk(const std::string& name, conf::TimePoint now) const {
  const Node* const node = Find(name);
  return node != nullptr && node->can_be_asked && !(node->answered && now - *node->answered < kFresh);
}

bool NodeWatch::IsSilent(const std::string& node) const {
  const Node* const found = Find(node);
  return found != nullptr && found->silent;
}

std::string NodeWatch::WhyNoLaunch(const std::string& name, conf::TimePoint now) const {
  const Node* const node = Find(name);
  if (node == nullptr) return {};
  if (node->suspect) return node->why;
  const bool room = 2 * (suspects_ + 1) <= nodes_.size();  // or it is all the same
  return node->silent && room && AnotherAnswers(name, now) ? node->silent_why : std::string();
}

std::optional<NodeWatch::Doubt> NodeWatch::doubt(const std::string& name) const {
  const Node* const node = Find(name);
  if (node == nullptr) return std::nullopt;
  if (node->said == Health::kSuspect || node->said == Health::kQuarantined)
    return Doubt{node->suspect ? std::min(node->since, node->said_since) : node->said_since, node->said_why,
                 false};
  if (node->suspect) return Doubt{node->since, node->why, true};
  return std::nullopt;
}

std::optional<NodeWatch::Leave> NodeWatch::LeaveOf(const std::string& name) const {
  const Node* const node = Find(name);
  if (node == nullptr || node->leaving == plugins::launchers::Leaving::kNobody) return std::nullopt;
  return Leave{node->leaving, node->said_why};
}

bool NodeWatch::suspect(const std::string& node) const {
  const Node* const found = Find(node);
  return found != nullptr && found->suspect;
}

std::set<std::string> NodeWatch::suspects() const {
  std::set<std::string> all;
  for (const auto& [name, node] : nodes_) {
    if (node.suspect) all.insert(name);
  }
  return all;
}

}  // namespace gateway::control
