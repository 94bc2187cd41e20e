// RolloutDriver: carries out rollouts of new versions: starts replicas of the new version beside the others, increases
// its share of requests step by step, and promotes it or rolls it back. router/health/rollout_judgement.h decides.
//
// Until the new version is promoted, the autoscaler keeps the replicas of the version in force, so that a rollback
// costs nothing. A step is judged by the requests of all gateways since the step began, and by their feedback since
// the rollout began. After a restart, or by another leader, a step is judged anew.
//
// Owner: the ScalingLoop. Thread: the control loop's.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "gateway/control/models/ratings.h"
#include "gateway/control/models/rollouts.h"
#include "gateway/control/models/version_tries.h"
#include "gateway/control/replicas/replicas.h"
#include "gateway/control/workloads/context.h"
#include "gateway/metrics/shard_metrics.h"
#include "gateway/shard/runtime.h"
#include "router/health/rollout_judgement.h"

namespace gateway::control {

// For operators.
struct RolloutStatus {
  Rollout rollout;
  std::string from;           // the version in force before; empty: it has no name
  std::vector<double> steps;  // of the policy
  uint32_t ready = 0;         // replicas of the new version
  uint32_t wanted = 0;
  uint32_t old_ready = 0;
  router::VersionSample fresh;  // in this step
  router::VersionSample old;    // since the rollout began here
  std::string standing;         // what the next move waits for
};

class RolloutDriver {
 public:
  struct Environment {
    std::function<std::shared_ptr<const Runtime>()> runtime;
    std::function<std::vector<const ShardMetrics*>()> shards;
    // Replicas of the version in force that the autoscaler wants.
    std::function<uint32_t(const std::string& model)> wanted;
    Rollouts* rollouts = nullptr;  // null: only where a test has none
    std::function<TriesByModel()> tries_elsewhere = [] { return TriesByModel(); };
    // The feedback of that name on the answers of the model's replicas since then; null: it is not known.
    std::function<net::Task<RatingsByReplica>(std::string model, std::string name, conf::TimePoint since)>
        ratings = nullptr;
  };

  RolloutDriver(const Context& context, Workloads& workloads, Replicas& replicas, Environment env)
      : context_(context), workloads_(workloads), replicas_(replicas), env_(std::move(env)) {}

  void Tick();
  // A replica of the new version has failed.
  void OnFailure(const std::string& model, std::string why);
  size_t under_way() const { return changing_.size() + asking_; }

  std::vector<RolloutStatus> Rows() const;
  // By an operator. FailedPrecondition: the model has no rollout that runs, or (Restart) one that runs.
  net::Task<absl::Status> Promote(std::string model, std::string by);
  net::Task<absl::Status> Abort(std::string model, std::string by, std::string why);
  net::Task<absl::Status> Restart(std::string model, std::string by);

 private:
  // What this process has seen of one rollout.
  struct Seen {
    std::string version;
    conf::TimePoint step_since{};       // of the step that `base` belongs to
    router::VersionSample base;         // of the new version, when the step began
    router::VersionSample old_base;     // of the old one, when the rollout began here
    std::set<std::string> fresh_names;  // replicas, as the metrics name them
    std::set<std::string> old_names;
    conf::TimePoint usable{};  // when a replica of the new version was last seen to be fit for requests
    uint32_t failed = 0;
    std::string last_failure;
    std::string standing;
    uint32_t wanted = 0;
    RatingsByReplica ratings;         // since the rollout began
    conf::TimePoint ratings_asked{};  // when they were last asked for
  };

  const config::ModelPolicy* PolicyOf(const std::string& model) const;
  void Tick(const config::ModelPolicy& policy, conf::TimePoint now);
  void Run(const config::ModelPolicy& policy, const Rollout& rollout, Seen& seen, conf::TimePoint now);
  void Collect(const config::ModelPolicy& policy, Seen& seen) const;
  void RetireOthers(const config::ModelPolicy& policy, const Rollout& rollout);
  router::VersionSample SampleOfReplicas(const std::set<std::string>& names) const;
  // The results of the new version in this step, and of the old one since the rollout began.
  router::VersionSample FreshOf(const Seen& seen) const;
  router::VersionSample OldOf(const Seen& seen) const;
  static router::Ratings RatingsOfNames(const Seen& seen, const std::set<std::string>& names);
  net::Task<void> AskForRatings(std::string model, std::string name, conf::TimePoint since);
  uint32_t CountReady(const std::string& model, bool fresh, const std::string& version) const;
  bool AnyAnswers(const std::string& model, const std::string& version, conf::TimePoint now) const;
  net::Task<void> Change(Rollout rollout, std::string action);
  net::Task<absl::Status> Order(std::string model, std::string by, RolloutState state, std::string why);
  net::Task<void> Forget(std::string model);

  const Context& context_;
  Workloads& workloads_;
  Replicas& replicas_;
  const Environment env_;
  std::map<std::string, Seen> seen_;  // by model
  std::set<std::string> changing_;    // models whose rollout is being written
  size_t asking_ = 0;                 // questions about feedback
  conf::TimePoint next_{};
};

}  // namespace gateway::control
