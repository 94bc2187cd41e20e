#include "scheduler/sim/node_outages.h"

#include <algorithm>
#include <cassert>

#include "scheduler/sim/draws.h"

namespace scheduler::sim {

NodeOutages::NodeOutages(Simulation& simulation, JobLives& lives)
    : sim_(simulation), lives_(lives), nodes_(simulation.cluster->nodes.size()) {
  const WorldOptions& options = sim_.options;
  if (options.mtbf > conf::Duration::zero()) {
    for (NodeId node = 0; node < nodes_.size(); ++node) {
      const conf::TimePoint at = sim_.start + Exponential(sim_.fault_rng, options.mtbf);
      sim_.events.Push({at, node, 0, EventKind::kNodeFails});
    }
  }
  for (uint32_t i = 0; i < options.faults.size(); ++i) {
    sim_.events.Push({sim_.start + options.faults[i].at, i, 0, EventKind::kDomainFails});
  }
  for (uint32_t i = 0; i < options.drains.size(); ++i) {
    sim_.events.Push({sim_.start + options.drains[i].at, i, 0, EventKind::kDrains});
    ++sim_.coming;
  }
}

void NodeOutages::Handle(const Event& event) {
  switch (event.kind) {
    case EventKind::kDomainFails:
      return FailDomain(sim_.options.faults[event.subject].domain);
    case EventKind::kNodeFails:
      if (event.epoch == nodes_[event.subject].epoch) Fail(event.subject);
      return;
    case EventKind::kNodeIsBack:
      return Return(event.subject);
    case EventKind::kDrains:
      return BeginDrain(event.subject);
    case EventKind::kDrained:
      return EndDrain(event.subject);
    default:
      assert(false);
  }
}

void NodeOutages::FailDomain(DomainId domain) {
  const auto below = sim_.planner.state().nodes_under(domain);
  const std::vector<NodeId> nodes(below.begin(), below.end());
  for (const NodeId node : nodes) Fail(node);
}

void NodeOutages::Fail(NodeId node) {
  NodeFate& fate = nodes_[node];
  if (fate.down) return;
  ++sim_.counts.faults;
  const ClusterState& state = sim_.planner.state();
  const std::vector<uint32_t> hit = lives_.SettleOn(node);
  const bool was_quarantined = state.health(node) == Health::kQuarantined;
  sim_.planner.NodeFault(node, sim_.now);
  fate.quarantined = !was_quarantined && state.health(node) == Health::kQuarantined;
  if (fate.quarantined) ++sim_.counts.quarantined;
  sim_.planner.SetHealth(node, Health::kQuarantined, sim_.now);  // down for now, whatever its record
  lives_.FailMembers(hit);
  fate.down = true;
  ++down_count_;
  ++fate.epoch;
  sim_.something_happened = true;
  const WorldOptions& options = sim_.options;
  const conf::Duration away =
      fate.quarantined ? std::max(options.repair, options.quarantine) : options.repair;
  sim_.events.Push({sim_.now + away, node, 0, EventKind::kNodeIsBack});
}

void NodeOutages::Return(NodeId node) {
  NodeFate& fate = nodes_[node];
  fate.down = false;
  --down_count_;
  if (fate.quarantined) {
    sim_.planner.SetHealth(node, Health::kHealthy, sim_.now);
  } else {
    sim_.planner.NodeRepaired(node, sim_.now);
  }
  KeepOut(node);
  sim_.something_happened = true;
  if (sim_.options.mtbf > conf::Duration::zero()) {
    const conf::TimePoint at = sim_.now + Exponential(sim_.fault_rng, sim_.options.mtbf);
    sim_.events.Push({at, node, fate.epoch, EventKind::kNodeFails});
  }
}

void NodeOutages::BeginDrain(uint32_t index) {
  const Drain& drain = sim_.options.drains[index];
  sim_.events.Push({sim_.now + drain.length, index, 0, EventKind::kDrained});
  nodes_[drain.node].drained = true;
  sim_.something_happened = true;
  if (!nodes_[drain.node].down) sim_.planner.SetHealth(drain.node, Health::kDraining, sim_.now);
}

void NodeOutages::EndDrain(uint32_t index) {
  const NodeId node = sim_.options.drains[index].node;
  --sim_.coming;
  nodes_[node].drained = false;
  sim_.something_happened = true;
  if (nodes_[node].down) return;
  sim_.planner.SetHealth(node, Health::kHealthy, sim_.now);
  KeepOut(node);
}

// A node that is drained, or that the cluster takes out of use, stays so when it is back.
void NodeOutages::KeepOut(NodeId node) {
  const Health stated = sim_.cluster->nodes[node].health;
  if (nodes_[node].drained) return sim_.planner.SetHealth(node, Health::kDraining, sim_.now);
  if (stated == Health::kDraining || stated == Health::kQuarantined) {
    sim_.planner.SetHealth(node, stated, sim_.now);
  }
}

}  // namespace scheduler::sim
