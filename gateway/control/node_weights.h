// NodeWeights: which nodes hold which models' weights, as their own steps have said; and the planner's knowledge
// of it: labels of nodes, which replicas prefer.
//
// What is known is what the last step on a node listed. It may be old: a person may have removed weights since.
// Then a replica goes to a node that has to fetch them, which is slower and no fault.
//
// Owner: the ScalingLoop. Thread: the control loop's.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "gateway/control/context.h"
#include "gateway/control/workloads.h"

namespace gateway::control {

class NodeWeights {
 public:
  // `on_change` runs after the planner's cluster has changed.
  NodeWeights(const Context& context, Workloads& workloads, std::function<void()> on_change)
      : context_(context), workloads_(workloads), on_change_(std::move(on_change)) {}

  // A step on the node has listed all that its store holds, by hex digests.
  void Listed(const std::string& node, const std::vector<std::string>& holds);
  // "sha256:HEX".
  bool Holds(const std::string& node, std::string_view digest) const;
  size_t HoldersOf(std::string_view digest) const;

  // Tells the planner what has changed, at most every few seconds.
  void Tick();
  // The labels on nodes of another cluster.
  void Label(scheduler::Cluster& cluster) const;

  // What a member asks for to be placed where the weights are.
  static scheduler::LabelRule Preference(std::string_view digest);

 private:
  const Context& context_;
  Workloads& workloads_;
  const std::function<void()> on_change_;
  std::map<std::string, std::set<std::string>> holds_;  // hex digests, by node
  bool changed_ = false;
  conf::TimePoint next_{};
};

}  // namespace gateway::control
