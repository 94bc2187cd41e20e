// Planning: the planner as the control loop uses it: workloads are its jobs, by their ids.
//
// Decides nothing: the planner does. One thread; times must not go back.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "gateway/config/scaling.h"
#include "gateway/control/planning/cordon.h"
#include "gateway/control/planning/reserved_devices.h"
#include "plugins/launchers/launcher.h"
#include "scheduler/cluster_change.h"
#include "scheduler/planner.h"

namespace gateway::control {

class Planning {
 public:
  Planning(const config::Scaling& scaling, conf::TimePoint now);

  // Restores a workload that ran or waited before this process, with its devices. False: they no longer
  // exist, or are taken. Call it before the first Submit.
  bool Restore(scheduler::JobState job);
  // The number by which holdings of this process name the tenant. Call it before the first Submit.
  uint32_t TenantNumber(const std::string& tenant);

  // How long jobs ran that ended before this process, in the order of their ends. Call it before the first Submit.
  void LearnRuns(const std::vector<std::pair<scheduler::Job, conf::Duration>>& ended);

  // A job of a queue that does not exist, such as one for a reservation that has ended, goes to the first queue.
  void Submit(scheduler::Job job, conf::TimePoint now);
  // The workload is no longer wanted, or begins again. Does nothing if the planner does not know it.
  void Leave(const std::string& id, conf::TimePoint now);
  // The workload has ended for good: how long it ran is learned.
  void End(const std::string& id, conf::TimePoint now);
  bool Knows(const std::string& id);
  // The planner's decision to move `from` becomes a decision to replace it: `to` runs at the new places from now.
  void HandOver(const std::string& from, scheduler::Job to, conf::TimePoint now);
  // A workload that runs asks for its devices in another way from now, and keeps them.
  void Replace(scheduler::Job job, conf::TimePoint now);
  // A workload that was to move stays where it is.
  void Unmove(const std::string& id, conf::TimePoint now);

  // The state of the nodes of a shared cluster, and what others hold there. It is not known which devices
  // these are, so the lowest ones that we have not assigned count as taken, and so do devices that only our
  // description of the cluster has. A node that is missing here is not used.
  void UpdateNodes(const std::vector<plugins::launchers::SharedNode>& nodes, conf::TimePoint now);

  // Devices that get no new work; their holders keep them.
  void UpdateFaults(const std::vector<plugins::launchers::DeviceFault>& faults, conf::TimePoint now);

  // Cordoned nodes and devices get no new work, whatever their health; running work keeps them.
  // May be called before the planner begins.
  void UpdateCordons(const std::vector<Cordon>& cordons, conf::TimePoint now);

  // The devices that are kept for tenants from now on, in place of those before. Running jobs go on.
  void UpdateReserved(std::vector<ReservedDevices> reserved, conf::TimePoint now);

  // How the planner's cluster becomes that one. Nodes on which its jobs are, or these holdings, stay in it.
  scheduler::ClusterChange CompareCluster(const scheduler::Cluster& found,
                                          std::span<const scheduler::Holding> held) const;
  // Plans with the changed cluster from now on; jobs keep what they hold. Earlier ids of nodes are no longer good, and
  // the state of new nodes is not known: report it, and the cordons, again.
  void UpdateCluster(const scheduler::ClusterChange& change, conf::TimePoint now);

  // Plans, if something has changed since the last cycle or the next one is due.
  std::optional<scheduler::Plan> Run(conf::TimePoint now);

  // Whole sentences that say why it waits; none if the planner does not know it.
  std::vector<std::string> Explain(const std::string& id, conf::TimePoint now);

  // For reports that go directly to the planner. Changed() makes a cycle due.
  scheduler::Planner& planner();
  void Changed() { changed_ = true; }

  const scheduler::Cluster& cluster() const { return start_.cluster; }
  // The queues in which jobs of the tenant may be: the configured ones, and those of its reservations.
  std::vector<scheduler::Queue> QueuesOf(std::string_view tenant) const;
  const std::string& first_queue() const { return first_queue_; }  // a leaf
  // Kinds of devices without partitions, where other kinds have them (config/cut_devices.h).
  const std::vector<std::string>& uncut() const { return uncut_; }

 private:
  // The reports about a node.
  struct NodeReport {
    std::optional<scheduler::Health> health{};  // by the launcher; absent: no report
    uint32_t left = 0;                          // devices that others hold, or that do not exist
    scheduler::HostAmounts others{};            // CPU and memory that others hold, or that do not exist
    uint32_t faulty = 0;                        // devices
    uint32_t emptied = 0;                       // of these, those that work is to leave
    uint32_t cordoned = 0;                      // devices
    bool is_cordoned = false;                   // all of it
  };
  void UpdatePlanner(scheduler::NodeId node, conf::TimePoint now);
  void Remove(const std::string& id, bool ended, conf::TimePoint now);
  void ChooseQueue(scheduler::Job& job);

  const scheduler::Policy policy_;
  const config::PowerBudget power_;
  const std::vector<scheduler::Queue> configured_;  // queues
  const std::string first_queue_;
  std::vector<ReservedDevices> reserved_;
  // The queues that the job files of known jobs name, if they are not configured.
  std::map<std::string, std::string> asked_queues_;  // by id
  std::vector<std::string> uncut_;
  scheduler::Snapshot start_;  // before the planner begins: running workloads, and the planner's cluster
  std::unique_ptr<scheduler::Planner> planner_;
  std::vector<NodeReport> reports_;  // by node
  bool changed_ = false;
  conf::TimePoint last_{};
};

}  // namespace gateway::control
