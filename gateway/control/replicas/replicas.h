// Replicas: the workloads that serve a model. The autoscaler decides that they should exist; a replica is
// ready when its leader answers, saves its work by finishing its requests, and is replaced as a whole when
// one of its members fails.
//
// Owner: the ScalingLoop. Thread: the control loop's.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gateway/config/model_policy.h"
#include "gateway/control/models/rollout.h"
#include "gateway/control/nodes/node_watch.h"
#include "gateway/control/replicas/replica_status.h"
#include "gateway/control/workloads/workloads.h"
#include "gateway/shard/runtime.h"
#include "scheduler/autoscale/autoscaler.h"

namespace gateway::control {

// The state of a replica, in the words that people see.
ReplicaState ReplicaStateOf(const Workload& replica);

// Whether requests may go to a replica that serves: it is healthy, and its circuit breaker is not open.
bool Answers(const Workload& replica, conf::TimePoint now);

class Replicas final : public WorkloadKind {
 public:
  struct Environment {
    // Null: the model no longer has a policy.
    std::function<const config::ModelPolicy*(const std::string& model)> policy;
    // False for a while after failures: no replica of the model is started.
    std::function<bool(const std::string& model)> may_start;
    // A replica of the model that had served for this long has failed by its own fault.
    std::function<void(const std::string& model, std::string why, conf::Duration served)> on_failure;
    // The role of a model's version, and the version in force.
    std::function<VersionRole(const config::ModelPolicy& policy, std::string_view version)> role =
        [](const config::ModelPolicy&, std::string_view) { return VersionRole::kServes; };
    std::function<std::string(const config::ModelPolicy& policy)> version_in_force =
        [](const config::ModelPolicy& policy) { return policy.version; };
    // A replica of a new version has failed by its own fault.
    std::function<void(const std::string& model, std::string why)> on_new_failure = [](const std::string&,
                                                                                       const std::string&) {};
    // The state of a replica's requests.
    std::function<std::shared_ptr<router::ReplicaState>(const std::string& identity)> load;
    // The node is not trusted.
    std::function<bool(const std::string& node)> doubted;
    // The step that brings the model's weights to a replica's member; absent: none is needed.
    std::function<std::optional<plugins::launchers::WeightsStep>(
        const config::ModelPolicy& policy, const std::string& node, const std::string& kind)>
        weights_step = [](const config::ModelPolicy&, const std::string&, const std::string&) {
          return std::optional<plugins::launchers::WeightsStep>();
        };
    // From now on requests go to these launched replicas, and to no other launched ones.
    std::function<void(const Launched&)> publish;
    // The requests that other gateways have at a replica that takes no new ones; absent: one of them may still
    // send it some.
    std::function<std::optional<uint32_t>(const Workload& replica)> left_elsewhere = [](const Workload&) {
      return std::optional<uint32_t>(0);
    };
  };

  Replicas(const Context& context, Workloads& workloads, Environment env)
      : context_(context), workloads_(workloads), env_(std::move(env)) {}

  enum class For : uint8_t { kAll, kBatches };
  // Adds a replica of the version in force, which waits for devices.
  Workload& Add(std::string_view model, std::string why, For whom = For::kAll);
  // Likewise, of a new version.
  Workload& AddVersion(std::string_view model, std::string version, std::string why);
  // The replica is no longer wanted: it finishes its requests and ends. One without devices is dropped at
  // once.
  void Retire(Workload& replica, std::string why);
  // Whether a serving replica may become one for batches alone, or cease to be one.
  bool MayChangeHands(const Workload& replica) const;
  // The replica keeps its devices, and its requests continue.
  void SetForBatches(Workload& replica, bool for_batches, std::string why);
  // The gateway ends: running requests are not waited for.
  void EndAll(const std::string& why);

  // Changes that are due by time alone.
  void Tick();
  // Sends requests to replicas that are ready and, until the ledger has it, to those that are to stop.
  void Publish();

  // The replicas that the autoscaler counts: of the version in force, without those that stop, are set aside or are for
  // batches.
  std::vector<scheduler::autoscale::ReplicaView> Views(std::string_view model) const;
  uint32_t Count(std::string_view model, ReplicaState state) const;
  // Calls `fn` with each replica of a model; `fn` must drop none.
  void ForEach(std::string_view model, const std::function<void(Workload&)>& fn);
  // A replica on a node without trust counts less and less, but is not ended; a replica that was to start there
  // starts elsewhere.
  void SetAside(const std::function<std::optional<NodeWatch::Doubt>(const std::string& node)>& doubt_of);
  // Replicas for batches end where a device of theirs has a fault: they can start elsewhere when lines wait again.
  void LeaveFaulty(const std::vector<plugins::launchers::DeviceFault>& faults);
  // Adds, by node, the replicas that should answer, those that do not, and those that start late.
  void CountRuns(std::map<std::string, NodeWatch::Runs>& runs) const;
  std::vector<ReplicaStatus> Rows() const;
  uint64_t failures() const { return failures_; }  // since the start

  // WorkloadKind
  scheduler::Job AskOf(const Workload& replica) const override;
  bool MayBePlaced(Workload& replica) override;
  absl::StatusOr<plugins::launchers::RunSpec> SpecOf(const Workload& replica, uint32_t rank) const override;
  void OnMembersUp(Workload& replica) override;
  bool EndsByItself() const override { return false; }
  bool Saves(const Workload& replica, Afterwards then) const override;
  int SaveSignal(const Workload&) const override { return 0; }
  void OnSaved(Workload&, conf::TimePoint) override {}
  conf::Duration StopGrace(const Workload&) const override { return std::chrono::seconds(10); }
  bool GivesUpSilentMembers() const override { return false; }
  void Fail(Workload& replica, std::string why, Blame blame) override;
  void OnStopped(Workload& replica) override { workloads_.Drop(replica); }
  bool KeepsRuns() const override { return false; }
  std::string ActionOf(const Workload& replica) const override;
  std::string EndOf(const Workload&) const override { return {}; }
  std::string DetailOf(const Workload& replica, bool ended) const override;

 private:
  void Tick(Workload& replica, conf::TimePoint now);

  const Context& context_;
  Workloads& workloads_;
  const Environment env_;
  std::map<std::string, std::vector<std::string>> published_;  // ids by model
  bool published_once_ = false;
  int64_t last_stamp_ = 0;
  uint64_t failures_ = 0;
};

}  // namespace gateway::control
