// ScalingLoop: gives every part of this room its turn, ten times a second: load becomes wanted replicas, the
// planner places them and the jobs, steps are carried out, and running members are compared with the
// workloads.
//
// At its start it takes over the workloads of an earlier process. It starts nothing while the store cannot be read
// or the launcher does not list its runs.
//
// Owner: the Process. Thread: the control loop's.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "gateway/control/devices/device_faults.h"
#include "gateway/control/devices/device_telemetry.h"
#include "gateway/control/devices/node_power.h"
#include "gateway/control/devices/power_caps.h"
#include "gateway/control/jobs/jobs.h"
#include "gateway/control/launching/run_users.h"
#include "gateway/control/lead/gateway_record.h"
#include "gateway/control/learned/model_memories.h"
#include "gateway/control/metering/metering.h"
#include "gateway/control/moves/node_drain.h"
#include "gateway/control/moves/replica_moves.h"
#include "gateway/control/nodes/cordons.h"
#include "gateway/control/nodes/node_discovery.h"
#include "gateway/control/nodes/node_trust.h"
#include "gateway/control/planning/cluster_metrics.h"
#include "gateway/control/replicas/replicas.h"
#include "gateway/control/replicas/sleepers.h"
#include "gateway/control/scaling/rollout_driver.h"
#include "gateway/control/scaling/scaled_models.h"
#include "gateway/control/scaling/scaler.h"
#include "gateway/control/starts/readiness.h"
#include "gateway/control/starts/start_reports.h"
#include "gateway/control/status.h"
#include "gateway/control/weights/node_weights.h"
#include "gateway/control/weights/prefetches.h"
#include "gateway/control/weights/weights_neighbours.h"
#include "gateway/control/workloads/orphans.h"
#include "gateway/control/workloads/reconciler.h"
#include "gateway/control/workloads/step_runner.h"
#include "gateway/ledger/record.h"
#include "gateway/net/loop.h"
#include "gateway/shard/runtime.h"
#include "gateway/store/store.h"
#include "plugins/launchers/launcher.h"

namespace gateway::control {

// The parts of the process that the loop uses.
struct LoopEnvironment {
  std::function<std::shared_ptr<const Runtime>()> runtime;
  std::function<std::vector<const ShardMetrics*>()> shards;
  // The event is on disk when it returns.
  std::function<net::Task<absl::Status>(ledger::Event)> record;
  // From now on requests go to these launched replicas, and to no other launched ones.
  std::function<void(const Launched&)> publish;
  router::ReplicaStates* replicas = nullptr;
  ScalingHintsByModel* scaling_hints = nullptr;
  // The ledger for metering, and the receiver of device records that are on disk.
  std::function<std::unique_ptr<MeterLedger>()> meter;
  std::function<void(std::span<const ledger::DeviceRecord>)> charge;
  // The reason why a tenant may start nothing on devices of these kinds now; empty: it may.
  std::function<std::string(const std::string& tenant, std::span<const std::string> kinds)> devices_used_up;
  // Why nothing may start, since its records would have no room; empty: it may.
  std::function<std::string()> no_room = [] { return std::string(); };
  store::Store* store = nullptr;
  Rollouts* rollouts = nullptr;  // null: only where a test has none
  // Blocks: the feedback of that name on the answers of the model's replicas since then; null: it is not known.
  std::function<RatingsByReplica(const std::string& model, const std::string& name, conf::TimePoint since)>
      ratings = nullptr;
  // An operator's order to keep a model's number of replicas; null: none.
  std::function<const ModelOrder*(const std::string& model, conf::TimePoint now)> held =
      [](const std::string&, conf::TimePoint) { return nullptr; };
  // The term in which it drives; alone, the epoch may be 0 (Leadership::epoch).
  uint64_t epoch = 0;
  bool shared = false;  // other gateways use the store
  std::function<bool()> leads = [] { return true; };
  std::function<net::Task<absl::Status>()> confirm = []() -> net::Task<absl::Status> {
    co_return absl::OkStatus();
  };
  // A write of the term was refused since another gateway leads.
  std::function<void()> deposed = [] {};
  // Whether this gateway sent requests to the replica before the term.
  std::function<bool(const std::string& replica)> served = [](const std::string&) { return false; };
  // The models' demand at other gateways.
  std::function<DemandByModel()> demand_elsewhere = [] { return DemandByModel(); };
  // What their requests have met at the replicas of rollouts.
  std::function<TriesByModel()> tries_elsewhere = [] { return TriesByModel(); };
  // What other gateways' requests to replicas have used since the last call; null: there are no others.
  std::function<std::vector<ledger::Served>()> served_elsewhere = nullptr;
  // The requests that other gateways have at a replica that has left the routes with that change of the store;
  // absent: one of them may still send it some.
  std::function<std::optional<uint32_t>(const std::string& replica, uint64_t change)> left_elsewhere =
      [](const std::string&, uint64_t) { return std::optional<uint32_t>(0); };
  // Devices that are kept for tenants now.
  std::function<std::vector<ReservedDevices>()> reserved = [] { return std::vector<ReservedDevices>(); };
  RunUsers users;
  std::string state_dir;  // for files of version 0.1 and the copy of the replicas' secret; empty: neither
};

class ScalingLoop final : private net::Alarm {
 public:
  // How long Close() waits for replicas that it ends.
  static constexpr conf::Duration kClosePatience = std::chrono::seconds(30);

  ScalingLoop(net::Loop& loop, std::unique_ptr<plugins::launchers::Launcher> launcher,
              const config::Scaling& scaling, LoopEnvironment env);
  ~ScalingLoop() override;

  // Takes over what runs, then begins.
  void Start();
  // Call it when policies or reserved devices may have changed.
  void Configure(const Runtime& runtime);
  // A request has begun to wait for a model without waiting requests.
  void OnWaiting();
  // Ends; replicas are stopped first unless they are to be kept.
  net::Task<void> Close(bool keep);

  Status status(conf::TimePoint now) const;
  // For a model with a policy; nothing for others.
  std::optional<ScalingHistory> history(const std::string& model) const { return scaler_.HistoryOf(model); }
  // Null until the running workloads are known.
  Jobs* jobs() { return begun_ ? &jobs_ : nullptr; }
  // Also before: orders are obeyed once it is known what runs.
  RolloutDriver* rollouts() { return &rollouts_; }
  Cordons* cordons() { return begun_ ? &cordons_ : nullptr; }
  const scheduler::Planner* planner() { return begun_ ? &planning_.planner() : nullptr; }

 private:
  Context MakeContext();
  Replicas::Environment ReplicasEnvironment();
  const Rollout* RolloutOf(const config::ModelPolicy& policy) const;
  RolloutDriver::Environment RolloutEnvironment();
  Jobs::Environment JobsEnvironment();
  Sleepers::Environment SleepersEnvironment();
  Prefetches::Environment PrefetchesEnvironment();
  ModelMemories::Environment MemoriesEnvironment();
  NeighbourStores NeighboursOf(const config::Scaling& scaling, const std::string& node) const;
  std::optional<plugins::launchers::WeightsStep> WeightsStepFor(const config::ModelPolicy& policy,
                                                                const std::string& node,
                                                                const std::string& kind) const;
  PowerCaps::Environment PowerCapsEnvironment();
  // Nodes of the planner's cluster have other ids, or labels.
  void OnNewCluster();
  std::vector<ScaledModels::Pod> PodsOf(const std::string& model) const;
  void OnAlarm() override;
  // By an operator, or by the manager of the cluster.
  std::optional<NodeDrain::Order> WhyDrained(const std::string& node) const;
  void Wake();

  net::Task<void> Begin();
  net::Task<absl::StatusOr<KnownWorkloads>> Load();
  net::Task<void> KeepSecret();
  bool GivesUp() const;
  void LogLauncherTrouble();
  void Place();
  void CountFirstStart(const scheduler::Action& action, conf::TimePoint now);
  // The disk has no room for records, or the launcher can start nothing; empty: work may start.
  std::string WhyNothingStarts() const;
  void SetUnplaced(const std::string& why);
  size_t under_way() const;

  net::Loop& loop_;
  const std::unique_ptr<plugins::launchers::Launcher> launcher_;
  const LoopEnvironment env_;
  const std::string device_warning_;
  Planning planning_;
  WorkloadStore store_;
  ReplicaKeys keys_;
  const Context context_;
  Workloads workloads_;
  StepRunner runner_;
  Reconciler reconciler_;
  Replicas replicas_;
  Jobs jobs_;
  Orphans orphans_;
  NodeWeights node_weights_;
  StartReports start_reports_;
  Readiness readiness_;
  ScaledModels scaled_;
  Sleepers sleepers_;
  Scaler scaler_;
  RolloutDriver rollouts_;
  Prefetches prefetches_;
  ModelMemories memories_;
  NodeTrust node_trust_;
  DeviceTelemetry telemetry_;
  DeviceFaults device_faults_;
  NodePower node_power_;
  PowerCaps power_caps_;
  Cordons cordons_;
  NodeDiscovery node_discovery_;
  NodeDrain node_drain_;
  ReplicaMoves replica_moves_;
  ClusterMetrics cluster_metrics_;
  Metering metering_;
  net::Sleep pause_;
  const conf::TimePoint began_;
  conf::TimePoint next_decision_{};
  bool urgent_ = false;
  bool nothing_starts_ = false;   // so nothing is placed
  std::string launcher_trouble_;  // as last logged
  bool beginning_ = false;
  bool begun_ = false;
  bool closing_ = false;
  bool keep_ = false;             // closing: running workloads stay
  conf::TimePoint give_up_at_{};  // closing: when to stop ending them
};

}  // namespace gateway::control
