// NodeTrust: which nodes of a cluster that others use too may be given something new. It hears what the
// launcher and replicas say of them (NodeWatch says what follows), asks those that have fallen silent, and
// tells the planner once a change is in the ledger.
//
// Owner: the ScalingLoop. Thread: the control loop's.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "gateway/control/context.h"
#include "gateway/control/node_watch.h"
#include "gateway/control/status.h"

namespace gateway::control {

class NodeTrust {
 public:
  // `count_runs` adds what runs on each node.
  NodeTrust(const Context& context, std::function<void(std::map<std::string, NodeWatch::Runs>&)> count_runs)
      : context_(context), count_runs_(std::move(count_runs)) {}

  // Takes up what is said of the nodes, and asks those that are due.
  void Tick();
  // Tells the planner what has changed.
  void UpdatePlanner();

  // OK, or Unavailable with the reason why nothing is to be started there just now.
  net::Task<absl::Status> MayStartOn(std::string node);
  // Nothing new is placed there: the reason, once it is in the ledger; nothing: it is trusted.
  std::optional<NodeWatch::Doubt> DoubtOf(const std::string& node) const;
  // Likewise, also while the ledger does not have it yet.
  bool doubted(const std::string& node) const { return watch_.doubt(node).has_value(); }

  std::vector<NodeStatus> Rows() const;
  // For those who wait.
  std::vector<std::string> InWords() const;
  uint64_t suspicions() const { return watch_.suspicions(); }  // since the start
  size_t under_way() const { return under_way_; }

 private:
  net::Task<void> Ask(std::string node);
  net::Task<void> Hear(std::string node);
  net::Task<void> Tell();

  const Context& context_;
  const std::function<void(std::map<std::string, NodeWatch::Runs>&)> count_runs_;
  NodeWatch watch_;
  uint64_t watched_version_ = 0;          // of what the launcher says: what the watch has seen
  std::set<std::string> suspects_;        // the watch's, once they are in the ledger
  uint64_t suspects_version_ = 0;         // another with each change
  std::pair<uint64_t, uint64_t> told_{};  // versions of both, as the planner was told
  std::set<std::string> asking_;          // nodes
  std::vector<std::string> left_out_;     // by the launcher, as last logged
  conf::TimePoint next_telling_{};
  bool telling_ = false;
  size_t under_way_ = 0;
};

}  // namespace gateway::control
