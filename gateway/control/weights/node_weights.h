// NodeWeights: which nodes hold which weights. The planner knows it as labels of nodes, which replicas prefer.
//
// Each fetch on a node lists what the node's store then holds; the last list is kept in the gateways' store. It may be
// old: a person may have removed weights since. Then a replica goes to a node that has to fetch them, which is slower
// and no fault.
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

  // Loads the lists that an earlier process, or an earlier leader, has kept.
  net::Task<absl::Status> Load();
  // The list of a step on the node: everything that its store held at that time, by hex digests. Older lists are
  // ignored.
  void Listed(const std::string& node, const std::vector<std::string>& holds, conf::TimePoint at);
  // `digest`: "sha256:HEX".
  bool Holds(const std::string& node, std::string_view digest) const;

  // The nodes that hold them, in the order of their names.
  std::vector<std::string> Holders(std::string_view digest) const;

  // Tells the planner and the store what has changed, at most every few seconds.
  void Tick();
  size_t under_way() const { return saving_ ? 1 : 0; }
  // The labels on nodes of another cluster.
  void Label(scheduler::Cluster& cluster) const;

  // The rule by which a member prefers nodes with the weights.
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
