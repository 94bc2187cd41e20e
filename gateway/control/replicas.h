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
#include "gateway/control/node_watch.h"
#include "gateway/control/status.h"
#include "gateway/control/workloads.h"
#include "gateway/shard/runtime.h"
#include "scheduler/autoscale/autoscaler.h"

namespace gateway::control {

// How a replica stands, in the words that people see.
ReplicaState ReplicaStateOf(const Workload& replica);

class Replicas final : public WorkloadKind {
 public:
  struct Around {
    // Null: the model has no policy any more.
    std::function<const config::ModelPolicy*(const std::string& model)> policy;
    // After failures, no replica of the model is started before a while.
    std::function<bool(const std::string& model)> may_start;
    // A replica of the model has failed by its own fault, after it had served for so long.
    std::function<void(const std::string& model, std::string why, conf::Duration served)> on_failure;
    // The state of a replica's requests.
    std::function<std::shared_ptr<router::ReplicaState>(const std::string& identity)> load;
    // Its node is not trusted.
    std::function<bool(const std::string& node)> doubted;
    // These take requests from now on, and no others that were launched.
    std::function<void(const Launched&)> publish;
  };

  Replicas(const Context& context, Workloads& workloads, Around around)
      : context_(context), workloads_(workloads), around_(std::move(around)) {}

  // A new one that waits for a place.
  Workload& Add(std::string_view model, std::string why);
  // It is not wanted any more: finishes its requests and ends. One that waits for a place is dropped at once.
  void Retire(Workload& replica, std::string why);
  // The gateway ends: no request is waited for.
  void EndAll(const std::string& why);

  // What time alone brings about.
  void Tick();
  // Has those take requests that are ready and, until that is in the ledger, those that are to stop.
  void Publish();

  // As the autoscaler counts them: those that stop are none any more, nor are those that are set aside.
  std::vector<scheduler::autoscale::ReplicaView> Views(std::string_view model) const;
  uint32_t Count(std::string_view model, ReplicaState state) const;
  // Calls it with each of a model; it must not drop any.
  void ForEach(std::string_view model, const std::function<void(Workload&)>& fn);
  // What stands on a node that is not trusted counts for less and less, and is not ended; what was to start
  // there is started elsewhere.
  void SetAside(const std::function<std::optional<NodeWatch::Doubt>(const std::string& node)>& doubt_of);
  // Adds those that should answer, that do not, and that take long to come, by node.
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
  const Around around_;
  std::map<std::string, std::vector<std::string>> published_;  // ids by model
  int64_t last_stamp_ = 0;
  uint64_t failures_ = 0;
};

}  // namespace gateway::control
