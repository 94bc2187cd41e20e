// Scaler: from load to the number of replicas. Ten times a second it adds up the load of the models and asks
// each autoscaler how many replicas there should be; then it adds, retires or fails replicas.
//
// Decides nothing itself: laws are pure (scheduler/autoscale).
//
// Owner: the ScalingLoop. Thread: the control loop's.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "gateway/control/lead/gateway_record.h"
#include "gateway/control/learned/cold_starts.h"
#include "gateway/control/learned/learned_starts.h"
#include "gateway/control/models/model_order.h"
#include "gateway/control/replicas/replicas.h"
#include "gateway/control/replicas/sleepers.h"
#include "gateway/control/scaling/history.h"
#include "gateway/control/scaling/model_status.h"
#include "gateway/control/scaling/scaled_models.h"
#include "gateway/control/scaling/signals.h"
#include "gateway/control/workloads/crash_loop.h"
#include "gateway/shard/runtime.h"

namespace gateway::control {

class Scaler {
 public:
  struct Environment {
    std::function<std::shared_ptr<const Runtime>()> runtime;
    std::function<std::vector<const ShardMetrics*>()> shards;
    ScalingHintsByModel* scaling_hints = nullptr;
    // An operator's order to keep the number of replicas; null: none.
    std::function<const ModelOrder*(const std::string& model, conf::TimePoint now)> held =
        [](const std::string&, conf::TimePoint) { return nullptr; };
    // What other gateways see of the models' demand.
    std::function<DemandByModel()> demand_elsewhere = [] { return DemandByModel(); };
    // Where the model's next replica may go.
    std::function<std::vector<StartPlace>(const config::ModelPolicy& policy)> places =
        [](const config::ModelPolicy&) { return std::vector<StartPlace>(); };
    ScaledModels* scaled = nullptr;  // null: no policy has an object of Kubernetes
  };

  Scaler(Workloads& workloads, Replicas& replicas, Sleepers& sleepers, const ColdStarts& cold_starts,
         const LearnedStarts& learned_starts, Environment env)
      : workloads_(workloads),
        replicas_(replicas),
        sleepers_(sleepers),
        cold_starts_(cold_starts),
        learned_starts_(learned_starts),
        env_(std::move(env)) {}

  // Call it when policies may have changed.
  void Configure(const Runtime& runtime, conf::TimePoint now);
  void Decide(conf::TimePoint now);

  // The model's last policy, while its replicas end; null: none since the start, or Kubernetes starts them.
  const config::ModelPolicy* PolicyOf(const std::string& model) const;
  uint32_t WantedOf(const std::string& model) const;    // replicas, by the last decision
  uint32_t WaitingFor(const std::string& model) const;  // requests, for a replica
  scheduler::autoscale::Claim ClaimOf(const std::string& model) const;
  bool MayStart(const std::string& model, conf::TimePoint now) const;
  // The configured policies whose weights are fetched to nodes beforehand.
  std::vector<const config::ModelPolicy*> PoliciesWithPrefetch() const;
  void OnFailure(const std::string& model, std::string why, conf::Duration served, conf::TimePoint now);

  std::vector<std::string> Models() const;  // that have a policy
  // What the model's law has learned of the traffic until now. Absent: this law learns nothing.
  std::optional<scheduler::autoscale::Hindsight::Memory> LearnedOf(const std::string& model) const;
  // Before the first decision: what an earlier process had learned until `at`.
  void Recall(const std::string& model, const scheduler::autoscale::Hindsight::Memory& learned,
              conf::TimePoint at, conf::TimePoint now);

  std::vector<ModelStatus> Rows(conf::TimePoint now) const;
  std::optional<ScalingHistory> HistoryOf(const std::string& model) const;

 private:
  // One model that has, or had, a policy.
  struct Pool {
    explicit Pool(config::ModelPolicy of) : policy(std::move(of)), autoscaler(policy.scaling) {}

    config::ModelPolicy policy;
    bool owned = true;  // its policy is still configured
    scheduler::autoscale::Autoscaler autoscaler;
    Meter meter;
    Asked asked;  // as of the last tick
    CrashLoop crashes;
    scheduler::autoscale::BatchReplicas batches;
    scheduler::autoscale::Signals signals;
    scheduler::autoscale::Decision decision;
    conf::Duration lead_time{};  // of the next replica, as of then
    conf::TimePoint lead_time_until{};
    std::optional<uint32_t> held;  // the number of replicas that an operator keeps
    std::string why_held;

    // The reason for the number of replicas.
    std::string_view why() const { return held ? std::string_view(why_held) : decision.why; }
    History history;
    std::string capacity_by;
    std::string trouble;
  };

  // The replicas of a model for lines of batches alone, without those that are ending.
  struct LineReplicas {
    scheduler::autoscale::BatchReplicas::Seen seen;
    std::vector<std::string> ids;
  };
  LineReplicas FindLineReplicas(const Pool& pool, const ModelQueue& queue, conf::TimePoint now);
  void Decide(Pool& pool, const LineReplicas& lines, conf::TimePoint now);
  void UpdateLeadTime(Pool& pool, conf::TimePoint now);
  void DecideForBatches(Pool& pool, const ModelQueue& queue, conf::TimePoint now);
  // For a model whose replicas Kubernetes runs: discovered replicas count as ready, the others as starting.
  void DecideScaled(Pool& pool, conf::TimePoint now);
  std::vector<const router::ReplicaState*> Discovered(const Pool& pool) const;
  uint32_t CountReady(const Pool& pool) const;
  uint32_t CountComing(const Pool& pool) const;
  void ObeyHold(Pool& pool, conf::TimePoint now);
  void UpdateCapacity(Pool& pool, conf::TimePoint now);
  double Occupied(const Pool& pool, const router::HeadroomLimits& room, conf::TimePoint now) const;
  void Keep(Pool& pool, conf::TimePoint now);
  void PublishTrouble(Pool& pool);
  std::vector<ClassStatus> ClassesOf(const Pool& pool, conf::TimePoint now) const;

  Workloads& workloads_;
  Replicas& replicas_;
  Sleepers& sleepers_;
  const ColdStarts& cold_starts_;
  const LearnedStarts& learned_starts_;
  const Environment env_;
  std::map<std::string, Pool> pools_;
};

}  // namespace gateway::control
