// NodeDiscovery: the planner's nodes, where the launcher finds them (Launcher::found). Nodes join, leave and
// change without a restart. Each such change is in the ledger before the planner uses it. A node that is gone or not
// ready gets no new work from that moment on (NodeTrust).
//
// A node on which workloads hold devices stays in the cluster, with those devices, until they have ended.
//
// Owner: the ScalingLoop. Thread: the control loop's.
#pragma once

#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "gateway/control/workloads/context.h"
#include "gateway/control/workloads/workloads.h"

namespace gateway::control {

class NodeDiscovery {
 public:
  // `on_change` runs after the cluster has changed: nodes may have other ids, and nodes may be new. `label` adds the
  // labels that this gateway itself gives to nodes.
  NodeDiscovery(const Context& context, Workloads& workloads, std::function<void()> on_change,
                std::function<void(scheduler::Cluster&)> label)
      : context_(context),
        workloads_(workloads),
        on_change_(std::move(on_change)),
        label_(std::move(label)) {}

  // Call it at the start of a term, before its workloads are known. Unavailable: the launcher does not know its nodes
  // yet.
  net::Task<absl::Status> Begin();
  void Tick();
  size_t under_way() const { return changing_ ? 1 : 0; }

 private:
  net::Task<void> Change();
  net::Task<absl::Status> Record(const scheduler::ClusterChange& change, const scheduler::Cluster& before);
  net::Task<absl::Status> RecordOne(std::string_view action, const std::string& node, std::string detail);
  absl::Status Apply(const scheduler::ClusterChange& change);

  const Context& context_;
  Workloads& workloads_;
  const std::function<void()> on_change_;
  const std::function<void(scheduler::Cluster&)> label_;
  uint64_t applied_ = 0;            // version of the launcher's cluster
  bool held_back_ = false;          // some changes of that version wait until workloads have ended
  std::set<std::string> recorded_;  // the parts of a change under way that the ledger has
  conf::TimePoint next_{};
  bool changing_ = false;
};

}  // namespace gateway::control
