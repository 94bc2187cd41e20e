// Planning: the planner as the control loop uses it: workloads are its jobs, by their ids.
//
// Decides nothing: the planner does. One thread; times must not go back.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "gateway/config/scaling.h"
#include "gateway/control/cordon.h"
#include "plugins/launchers/launcher.h"
#include "scheduler/planner.h"

namespace gateway::control {

class Planning {
 public:
  Planning(const config::Scaling& scaling, conf::TimePoint now);

  // A workload that ran or waited before this process: it keeps what it has been given. False: that is not
  // there (any more), or is taken already. Before the first Submit.
  bool Seat(scheduler::JobState job);

  void Submit(scheduler::Job job, conf::TimePoint now);
  // It has ended, or is not wanted any more. Nothing, if the planner does not know it.
  void Leave(const std::string& id, conf::TimePoint now);
  bool Knows(const std::string& id);

  // The state of the nodes of a cluster that others use too, and how many devices others hold there. Which of
  // them is not ours to say, so the lowest that we have not given away count as gone, and so do those that
  // only our own description of the cluster has. A node that is not among them is not used.
  void UpdateNodes(const std::vector<plugins::launchers::SharedNode>& nodes, conf::TimePoint now);

  // Devices that nothing new is given; what has them keeps them.
  void UpdateFaults(const std::vector<plugins::launchers::DeviceFault>& faults, conf::TimePoint now);

  // Nodes and devices that nothing new is given, whatever else is said of them; what has them keeps them.
  // Also before the planner begins.
  void UpdateCordons(const std::vector<Cordon>& cordons, conf::TimePoint now);

  // A cycle, if something has changed since the last one or it is time for one.
  std::optional<scheduler::Plan> Run(conf::TimePoint now);

  // In whole sentences why it waits; none, if the planner does not know it.
  std::vector<std::string> Explain(const std::string& id, conf::TimePoint now);

  // For what it is told beside this. Changed() says that it was told something: a cycle is due.
  scheduler::Planner& planner();
  void Changed() { changed_ = true; }

  const scheduler::Cluster& cluster() const { return seated_.cluster; }
  const std::vector<scheduler::Queue>& queues() const { return queues_; }
  const std::string& first_queue() const { return first_queue_; }  // a leaf
  // Kinds of devices that are not cut, where others are (config/cut_devices.h).
  const std::vector<std::string>& uncut() const { return uncut_; }

 private:
  // What is said of a node.
  struct Said {
    std::optional<scheduler::Health> health{};  // by the launcher; absent: it says nothing
    uint32_t gone = 0;                          // devices: others hold them, or they are not there
    uint32_t faulty = 0;                        // devices
    uint32_t cordoned = 0;                      // devices
    bool is_cordoned = false;                   // all of it
  };
  void Tell(scheduler::NodeId node, conf::TimePoint now);

  const scheduler::Policy policy_;
  const std::vector<scheduler::Queue> queues_;
  const std::string first_queue_;
  const std::vector<std::string> uncut_;
  scheduler::Snapshot seated_;  // before the planner begins: what runs; its cluster is the planner's
  std::unique_ptr<scheduler::Planner> planner_;
  std::vector<Said> said_;  // by node
  bool changed_ = false;
  conf::TimePoint last_{};
};

}  // namespace gateway::control
