// Readiness: probes the leaders of starting replicas. A replica runs once its policy's path answers with a
// status below 300, it is the run that listens there, and its engine demands the replica's key. One that slept
// is probed once its engine is awake (Sleepers).
//
// Owner: the ScalingLoop. Thread: the control loop's.
#pragma once

#include <functional>
#include <string>

#include "gateway/config/model_policy.h"
#include "gateway/control/learned/cold_starts.h"
#include "gateway/control/learned/learned_starts.h"
#include "gateway/control/learned/model_memory.h"
#include "gateway/control/starts/replica_proof.h"
#include "gateway/control/workloads/workloads.h"
#include "gateway/net/abort_group.h"
#include "gateway/net/loop.h"
#include "plugins/engines/start_times.h"

namespace gateway::control {

class Readiness {
 public:
  // Null: the model no longer has a policy.
  using PolicyOf = std::function<const config::ModelPolicy*(const std::string& model)>;

  // A replica that will never be ready.
  using OnFailure = std::function<void(Workload& replica, std::string why)>;
  // Notes what a replica has printed of its start, and returns the leader's words; empty: not known.
  using ReadStart = std::function<net::Task<std::string>(std::string id)>;

  Readiness(net::Loop& loop, const Context& context, Workloads& workloads, PolicyOf policy, OnFailure fail,
            ReadStart read_start)
      : loop_(loop),
        context_(context),
        workloads_(workloads),
        policy_(std::move(policy)),
        fail_(std::move(fail)),
        read_start_(std::move(read_start)) {}

  // Begins the probes that are due.
  void Tick();
  void Close() { fetches_.Abort(); }
  size_t under_way() const { return under_way_; }

  const ColdStarts& cold_starts() const { return cold_starts_; }
  const ColdStarts& wakes() const { return wakes_; }  // of replicas that slept
  const LearnedStarts& learned_starts() const { return learned_starts_; }

  // Writes what is known of the model's starts to `memory`, and takes it over from there.
  void Remember(const std::string& model, ModelMemory& memory) const;
  void Recall(const std::string& model, const ModelMemory& memory);

 private:
  net::Task<void> ProbeReplica(std::string id);
  // Asks the engine. `path` is the policy's.
  net::Task<Proof> ProbeEngine(std::string run, std::string path, ReplicaKeys::Trial trial,
                               std::shared_ptr<const config::Endpoint> endpoint);
  // Requests one token, and measures how long the answer took; zero where the policy wants no such request.
  net::Task<absl::StatusOr<conf::Duration>> FirstToken(std::string id);
  net::Task<void> BecomeReady(std::string id, conf::TimePoint ready, conf::Duration first_token);
  void LearnStart(Workload& replica, const std::string& kind, conf::TimePoint ready,
                  const plugins::engines::StartTimes& times, conf::Duration first_token);
  std::string KindOfDevices(const Workload& replica) const;

  net::Loop& loop_;
  const Context& context_;
  Workloads& workloads_;
  const PolicyOf policy_;
  const OnFailure fail_;
  const ReadStart read_start_;
  ColdStarts cold_starts_;
  ColdStarts wakes_;
  LearnedStarts learned_starts_;
  net::AbortGroup fetches_;
  size_t under_way_ = 0;
};

}  // namespace gateway::control
