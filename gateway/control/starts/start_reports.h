// StartReports: reads the logs of starting replicas: the progress of the weights' fetch, the list of what the node's
// store holds, and the engine's times for loading and compiling. For jobs with data sets it reads the list alone.
//
// Logs are the one channel that every launcher has. Without a log, only the end of a fetch is known.
//
// Owner: the ScalingLoop. Thread: the control loop's.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "gateway/config/model_policy.h"
#include "gateway/control/workloads/workloads.h"
#include "gateway/net/loop.h"

namespace gateway::control {

class StartReports {
 public:
  struct Environment {
    // Null: the model no longer has a policy.
    std::function<const config::ModelPolicy*(const std::string& model)> policy;
    // A step has listed what the store of its node holds.
    std::function<void(const std::string& node, const std::vector<std::string>& holds, conf::TimePoint at)>
        listed;
  };
  StartReports(net::Loop& loop, const Context& context, Workloads& workloads, Environment env)
      : loop_(loop), context_(context), workloads_(workloads), env_(std::move(env)) {}

  // Begins the reads that are due: of replicas whose weights are being fetched, and once of adopted replicas.
  void Tick();
  // For a replica that is about to be ready: notes what it has printed, and returns the beginning of the leader's
  // log; empty: there is none.
  net::Task<std::string> ReadNow(std::string id);
  // The beginning of a run's output.
  net::Task<std::string> ReadStart(std::string run, std::string log);
  size_t under_way() const { return under_way_; }

 private:
  bool Fetches(const Workload& workload) const;
  net::Task<void> Read(std::string id);

  net::Loop& loop_;
  const Context& context_;
  Workloads& workloads_;
  const Environment env_;
  size_t under_way_ = 0;
};

}  // namespace gateway::control
