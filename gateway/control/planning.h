// Planning: the planner as the control loop uses it: replicas are jobs of one member each, by their run's id.
// Other work (training, batch) stands in the same planner, beside them.
//
// Decides nothing: the planner does. One thread; times must not go back.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "gateway/config/scaling.h"
#include "plugins/launchers/launcher.h"
#include "scheduler/planner.h"

namespace gateway::control {

class Planning {
 public:
  explicit Planning(const config::Scaling& scaling, conf::TimePoint now);

  // Of what ran before this process: takes what it has been given. False: that is not there (any more), or
  // taken already. Before the first Submit.
  bool Seat(const std::string& run, const config::ModelPolicy& policy, const plugins::launchers::Grant& grant,
            conf::TimePoint since);

  void Submit(const std::string& run, const config::ModelPolicy& policy, conf::TimePoint now);
  // It has ended, or is not wanted any more.
  void Leave(const std::string& run, conf::TimePoint now);

  // How the nodes of a cluster that others use too are, what they have, and how many devices others hold:
  // which of them is not ours to say, so the lowest that we have not given away count as gone, and so do
  // those that only our own description of the cluster has. A node that is not among them is not used.
  void See(const std::vector<plugins::launchers::SharedNode>& nodes, conf::TimePoint now);

  // Devices that nothing new is given; what has them keeps them.
  void See(const std::vector<plugins::launchers::DeviceFault>& faults, conf::TimePoint now);

  struct Start {
    std::string run;
    plugins::launchers::Grant grant;
    std::string why;
  };
  struct Outcome {
    std::vector<Start> starts;
    std::vector<std::pair<std::string, std::string>> unplaced;  // run, and why it waits
    std::vector<std::pair<std::string, std::string>> evicted;   // run that is to stop, and why
    std::vector<scheduler::Action> of_jobs;                     // of all other work
    std::vector<std::pair<std::string, std::string>> waiting;   // job, and why it waits
  };
  // Other work: of what ran or waited before this process, as it stood then; false: what it holds is not
  // there (any more), or taken already. Before the first Submit, and after the replicas.
  bool Seat(scheduler::JobState job);
  // For who asks it for other work, and says so.
  scheduler::Planner& planner();
  void Changed() { changed_ = true; }

  // A cycle, if something has changed since the last one or it is time for one.
  Outcome Run(conf::TimePoint now);

  // In whole sentences why it waits.
  std::string Explain(const std::string& run, conf::TimePoint now) const;

  const scheduler::Planner& planner() const { return *planner_; }
  const scheduler::Cluster& cluster() const { return seated_.cluster; }

 private:
  scheduler::Job JobOf(const std::string& run, const config::ModelPolicy& policy, conf::TimePoint now) const;
  void Begin();
  void Become(scheduler::Snapshot seen);

  const scheduler::Policy policy_;
  std::string first_queue_;
  scheduler::Snapshot seated_;  // its cluster is the planner's
  std::unique_ptr<scheduler::Planner> planner_;
  std::map<std::string, scheduler::JobIndex> jobs_;
  bool changed_ = false;
  conf::TimePoint last_{};
};

}  // namespace gateway::control
