// FollowedReplicas: the replicas that the leading gateway runs, by their records in the store. A gateway that does not
// lead sends requests to the ready ones, and to no other.
//
// It also counts the requests that this gateway still has at replicas that take no new ones: the leader stops such
// a replica once no gateway has any.
//
// Owner: the Process; stopped before it is destroyed. Thread: the control loop's.
#pragma once

#include <absl/status/status.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "gateway/control/launching/replica_keys.h"
#include "gateway/control/models/rollout.h"
#include "gateway/control/replicas/replica_endpoint.h"
#include "gateway/net/loop.h"
#include "gateway/shard/runtime.h"
#include "gateway/store/follower.h"

namespace gateway::control {

// The part of a replica's record that a gateway needs to send it requests.
struct ServedReplica {
  std::string model;
  std::string version{};
  ReplicaAddress address;
  bool serves = false;  // it takes new requests

  bool operator==(const ServedReplica&) const = default;
};
// Absent: the record is a job's, or its replica has no address.
std::optional<ServedReplica> ReadServedReplica(const std::string& id, const std::string& body);

class FollowedReplicas {
 public:
  struct Environment {
    // Null: the model has no policy, so nothing is known of its replicas.
    std::function<const config::ModelPolicy*(const std::string& model)> policy;
    // The role of a model's version.
    std::function<VersionRole(const config::ModelPolicy& policy, std::string_view version)> role =
        [](const config::ModelPolicy&, std::string_view) { return VersionRole::kServes; };
    // Replicas have changed: some are ready, or take no more requests.
    std::function<void()> changed;
    // Some workload has changed: a replica or a job.
    std::function<void()> workloads_changed = [] {};
    // The state of a replica's requests.
    std::function<std::shared_ptr<router::ReplicaState>(const std::string& identity)> load;
  };

  // Both must outlive it.
  FollowedReplicas(net::Loop& loop, store::Store& store, Environment env);

  // The present replicas are known when it returns Ok.
  net::Task<absl::Status> Start();
  void Stop() { follower_.Stop(); }

  // The replicas that take requests now.
  Launched Serving() const;
  bool Serves(const std::string& replica) const;
  bool Knows(const std::string& replica) const { return replicas_.contains(replica); }
  // The requests here at replicas that take no new ones, and the last change of the store of which Serving() tells.
  std::map<std::string, uint32_t, std::less<>> Leaving() const;
  uint64_t number() const { return follower_.number(); }

  // Estimates the capacity of one replica of each model, from the replicas that are followed. Models whose replicas
  // Kubernetes starts are left out.
  void EstimateCapacities(const std::vector<config::ModelPolicy>& policies, ScalingHintsByModel& hints,
                          conf::TimePoint now) const;

 private:
  void Replace(const std::vector<store::Object>& all);
  void Apply(const std::vector<store::Change>& changes);

  store::Store& store_;
  const Environment env_;
  store::Follower follower_;
  ReplicaKeys keys_;
  std::map<std::string, ServedReplica> replicas_;  // by id
};

}  // namespace gateway::control
