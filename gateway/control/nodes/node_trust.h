// NodeTrust: which nodes of a shared cluster may get new work. It reads the reports of the launcher and of
// replicas (NodeWatch evaluates them), probes nodes that have fallen silent, and updates the planner once a
// change is in the ledger.
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

#include "gateway/control/nodes/node_watch.h"
#include "gateway/control/workloads/context.h"

namespace gateway::control {

// A node that gets no new work.
struct NodeStatus {
  std::string node;
  conf::TimePoint since{};
  std::string why;
  bool ours = false;  // suspected by us alone, not by the cluster's manager
};

class NodeTrust {
 public:
  // `count_runs` adds the runs on each node.
  NodeTrust(const Context& context, std::function<void(std::map<std::string, NodeWatch::Runs>&)> count_runs)
      : context_(context), count_runs_(std::move(count_runs)) {}

  // Reads the reports about the nodes, and probes those that are due.
  void Tick();
  // Reports the changes to the planner.
  void UpdatePlanner();
  // The planner has other nodes: all of them are reported to it again.
  void OnNewNodes() { told_ = {}; }

  // OK, or Unavailable with the reason why nothing may start on the node now.
  net::Task<absl::Status> MayStartOn(std::string node);
  // The reason why nothing new is placed on the node, once it is in the ledger; nothing: the node is trusted.
  std::optional<NodeWatch::Doubt> DoubtOf(const std::string& node) const;
  // The same, but also before the doubt is in the ledger.
  bool doubted(const std::string& node) const { return watch_.doubt(node).has_value(); }
  // Which work the cluster's manager wants moved elsewhere.
  std::optional<NodeWatch::Leave> LeaveOf(const std::string& node) const { return watch_.LeaveOf(node); }

  std::vector<NodeStatus> Rows() const;
  // Sentences for the explanation of waiting jobs.
  std::vector<std::string> InWords() const;
  uint64_t suspicions() const { return watch_.suspicions(); }  // since the start
  size_t under_way() const { return under_way_; }

 private:
  net::Task<void> Ask(std::string node);
  net::Task<void> Probe(std::string node);
  net::Task<void> RecordChanges();

  const Context& context_;
  const std::function<void(std::map<std::string, NodeWatch::Runs>&)> count_runs_;
  NodeWatch watch_;
  uint64_t watched_version_ = 0;          // of the launcher's report that the watch has seen
  std::set<std::string> suspects_;        // the watch's suspects that are in the ledger
  uint64_t suspects_version_ = 0;         // rises with each change
  std::pair<uint64_t, uint64_t> told_{};  // both versions, as the planner knows them
  std::set<std::string> asking_;          // nodes
  std::vector<std::string> left_out_;     // by the launcher, as last logged
  conf::TimePoint next_recording_{};
  bool recording_ = false;
  size_t under_way_ = 0;
};

}  // namespace gateway::control
