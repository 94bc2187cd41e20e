// Faults, repairs and drains of the nodes of a simulated world. One thread; must not outlive the simulation.
#pragma once

#include <cstdint>
#include <vector>

#include "scheduler/sim/job_lives.h"
#include "scheduler/sim/simulation.h"

namespace scheduler::sim {

class NodeOutages {
 public:
  // Puts the first fault of each node and all drains into the coming events.
  NodeOutages(Simulation& simulation, JobLives& lives);

  void Handle(const Event& event);  // of a node, a domain or a drain
  uint32_t down() const { return down_count_; }

 private:
  struct NodeFate {
    uint32_t epoch = 0;  // rises when the node fails: its other events are stale
    bool down = false;
    bool quarantined = false;  // of those that are down
    bool drained = false;      // by the options, for now
  };

  void Fail(NodeId node);
  void FailDomain(DomainId domain);
  void Return(NodeId node);
  void BeginDrain(uint32_t drain);
  void EndDrain(uint32_t drain);
  void KeepOut(NodeId node);

  Simulation& sim_;
  JobLives& lives_;
  std::vector<NodeFate> nodes_;
  uint32_t down_count_ = 0;
};

}  // namespace scheduler::sim
