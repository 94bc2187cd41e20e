// Readiness: probes the leaders of starting replicas: a replica runs once its policy's path answers with a
// status below 300.
//
// Owner: the ScalingLoop. Thread: the control loop's.
#pragma once

#include <functional>
#include <string>

#include "gateway/config/model_policy.h"
#include "gateway/control/cold_starts.h"
#include "gateway/control/workloads.h"
#include "gateway/net/abort_group.h"
#include "gateway/net/loop.h"

namespace gateway::control {

class Readiness {
 public:
  // Null: the model has no policy any more.
  using PolicyOf = std::function<const config::ModelPolicy*(const std::string& model)>;

  Readiness(net::Loop& loop, const Context& context, Workloads& workloads, PolicyOf policy)
      : loop_(loop), context_(context), workloads_(workloads), policy_(std::move(policy)) {}

  // Begins the probes that are due.
  void Tick();
  void Close() { fetches_.Abort(); }
  size_t under_way() const { return under_way_; }

  const ColdStarts& cold_starts() const { return cold_starts_; }

 private:
  net::Task<void> Probe(std::string id);
  std::string KindOfDevices(const Workload& replica) const;

  net::Loop& loop_;
  const Context& context_;
  Workloads& workloads_;
  const PolicyOf policy_;
  ColdStarts cold_starts_;
  net::AbortGroup fetches_;
  size_t under_way_ = 0;
};

}  // namespace gateway::control
