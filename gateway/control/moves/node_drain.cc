#include "gateway/control/moves/node_drain.h"

#include <algorithm>
#include <map>
#include <vector>

namespace gateway::control {

std::optional<NodeDrain::Order> NodeDrain::OrderFor(const Workload& workload) const {
  if (!workload.holds()) return std::nullopt;
  for (const Member& member : workload.members) {
    if (std::optional<Order> order = env_.order(NodeOf(context_.cluster(), member.at))) return order;
  }
  return std::nullopt;
}

// Also replicas that already end: the autoscaler does not take them back.
void NodeDrain::SetAside() {
  for (Workload& workload : workloads_.all()) {
    if (workload.kind == Kind::kReplica && OrderFor(workload)) workload.serving.set_aside = true;
  }
}

void NodeDrain::Tick() {
  std::map<std::string, uint32_t> ready;  // elsewhere, by model
  std::vector<std::pair<std::string, Order>> leaving;
  for (const Workload& workload : workloads_.all()) {
    if (std::optional<Order> order = OrderFor(workload)) {
      if (!workload.ends()) leaving.emplace_back(workload.id, *std::move(order));
    } else if (workload.kind == Kind::kReplica && workload.state == State::kRunning &&
               !workload.for_batches && !workload.serving.set_aside) {
      ++ready[workload.model];
    }
  }
  for (const auto& [id, order] : leaving) {
    Workload& workload = *workloads_.Find(id);
    if (workload.kind == Kind::kJob) {
      if (order.jobs_may_stay || !workload.file().job.preemptible) continue;
      workload.blameless = true;  // it asks for another place, and uses no restart
      workloads_.End(workload, Afterwards::kWaits, order.why, order.by);
    } else if (workload.kind == Kind::kReplica) {
      if (workload.busy) continue;
      if (workload.for_batches) {
        replicas_.Retire(workload, order.why);
        continue;
      }
      const bool serves = workload.state == State::kRunning;
      if (serves && ready[workload.model] < env_.wanted(workload.model)) continue;
      replicas_.Retire(workload, serves ? order.why + "; the replicas elsewhere are enough" : order.why);
    }
  }
}

}  // namespace gateway::control
