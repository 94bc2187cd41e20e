// NodeWeights: which nodes hold which models' weights, as their own steps have said; and the planner's knowledge
// of it: labels of nodes, which replicas prefer.
//
// The last step on a node listed what it holds; that list is kept in the store. It may be old: a person may
// have removed weights since. Then a replica goes to a node that has to fetch them, which is slower and no fault.
//
// Owner: the ScalingLoop. Thread: the control loop's.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "gateway/control/workloads/context.h"
#include "gateway/control/workloads/workloads.h"
#include "gateway/store/store.h"

namespace gateway::control {

class NodeWeights {
 public:
  // `on_change` runs after the planner's cluster has changed.
  NodeWeights(const Context& context, store::Store& store, Workloads& workloads,
              std::function<void()> on_change)
      : context_(context), store_(store), workloads_(workloads), on_change_(std::move(on_change)) {}

  // What an earlier process, or an earlier leader, knew.
  net::Task<absl::Status> Load();
  // A step on the node has listed at that time all that its store holds, by hex digests. Older lists are passed
  // over.
  void Listed(const std::string& node, const std::vector<std::string>& holds, conf::TimePoint at);
  // "sha256:HEX".
  bool Holds(const std::string& node, std::string_view digest) const;

  // The nodes that hold them, in the order of their names.
  std::vector<std::string> Holders(std::string_view digest) const;

  // Tells the planner and the store what has changed, at most every few seconds.
  void Tick();
  size_t under_way() const { return saving_ ? 1 : 0; }
  // The labels on nodes of another cluster.
  void Label(scheduler::Cluster& cluster) const;

  // What a member asks for to be placed where the weights are.
  static scheduler::LabelRule Preference(std::string_view digest);

 private:
  struct Known {
    std::set<std::string> holds{};  // hex digests
    conf::TimePoint at{};           // when they were listed
    uint64_t version = 0;           // in the store; 0: not there
    bool saved = false;
  };
  static std::string BodyOf(const Known& known);
  void TellPlanner(conf::TimePoint now);
  net::Task<void> Save();

  const Context& context_;
  store::Store& store_;
  Workloads& workloads_;
  const std::function<void()> on_change_;
  std::map<std::string, Known> nodes_;
  bool changed_ = false;  // the planner does not know yet
  bool saving_ = false;
  conf::TimePoint next_{};
};

}  // namespace gateway::control
