// NodeDrain: empties the nodes that operators, or the cluster's own manager, drain. A replica is first replaced
// elsewhere, and ends when the others are enough; a replica for batches ends at once; a preemptible job saves its work
// and starts again elsewhere; other jobs run to their end. The cordon (cordons.h) or the node's health keeps new work
// away.
//
// Owner: the ScalingLoop. Thread: the control loop's.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "gateway/control/replicas/replicas.h"
#include "gateway/control/workloads/context.h"
#include "gateway/control/workloads/workloads.h"

namespace gateway::control {

class NodeDrain {
 public:
  struct Order {
    std::string why;             // "node-7 is drained by ada: new firmware"
    std::string by;              // the person or program that gave the order
    bool jobs_may_stay = false;  // to their end, unless the planner finds another place for them
  };
  struct Environment {
    // The order to drain a node.
    std::function<std::optional<Order>(const std::string& node)> order;
    // How many replicas a model should have.
    std::function<uint32_t(const std::string& model)> wanted;
  };

  NodeDrain(const Context& context, Workloads& workloads, Replicas& replicas, Environment env)
      : context_(context), workloads_(workloads), replicas_(replicas), env_(std::move(env)) {}

  // From now on the autoscaler does not count replicas on these nodes. After Replicas::SetAside.
  void SetAside();
  // Ends what may end. After the autoscaler's decision.
  void Tick();

 private:
  std::optional<Order> OrderFor(const Workload& workload) const;

  const Context& context_;
  Workloads& workloads_;
  Replicas& replicas_;
  const Environment env_;
};

}  // namespace gateway::control
