// Sleepers: replicas that are not needed now and sleep instead of ending, so that others may use their devices.
//
// Asks engines to sleep once their last request has ended, and to wake once they have their devices again. When a
// model needs one more replica, scheduler/autoscale/wake.h decides which sleeper wakes, and which replicas of other
// models make room for it. A replica that does not fall asleep ends; one that does not wake fails, and a cold start
// takes its place.
//
// Owner: the ScalingLoop. Thread: the control loop's.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>

#include "gateway/config/model_policy.h"
#include "gateway/control/learned/cold_starts.h"
#include "gateway/control/replicas/replicas.h"
#include "gateway/net/abort_group.h"
#include "gateway/net/loop.h"
#include "plugins/engines/engine_sleep.h"
#include "scheduler/autoscale/wake.h"

namespace gateway::control {

class Sleepers {
 public:
  struct Environment {
    // Null: the model no longer has a policy.
    std::function<const config::ModelPolicy*(const std::string& model)> policy;
    // True: the replica's device time up to now is on disk.
    std::function<net::Task<bool>(const Workload& replica)> metered;
    // Requests of the model that wait for a replica.
    std::function<uint32_t(const std::string& model)> waiting;
    // The model's load, and how long its requests wait.
    std::function<scheduler::autoscale::Claim(const std::string& model)> claim;
    // The 90th percentile of how long starts and wakes of the model took; zero: none was measured.
    std::function<conf::Duration(const std::string& model)> cold_start;
    std::function<conf::Duration(const std::string& model)> wake;
  };

  Sleepers(net::Loop& loop, const Context& context, Workloads& workloads, Replicas& replicas, Environment env)
      : loop_(loop), context_(context), workloads_(workloads), replicas_(replicas), env_(std::move(env)) {}

  // A replica that is not needed: it finishes its requests and sleeps, or ends where its policy has no sleep.
  void PutAway(Workload& replica, const std::string& why);
  // A start that is not needed any more: one that was to wake sleeps on, any other ends.
  void Cancel(Workload& replica, const std::string& why);
  using Need = scheduler::autoscale::Need;
  // One more replica: wakes one, or adds one.
  void Start(const std::string& model, const std::string& why, Need need);

  // Calls to engines that are due, sleepers that have slept long enough, and replicas that make room for others.
  void Tick();
  void Close() { calls_.Abort(); }
  size_t under_way() const { return under_way_; }

 private:
  using Settings = scheduler::autoscale::SleepSettings;
  const Settings* SettingsOf(const Workload& replica) const;
  std::vector<scheduler::JobIndex> HoldersOf(const Workload& sleeper) const;
  scheduler::autoscale::Sleeper::Devices DevicesHeldBy(scheduler::JobIndex job,
                                                       const std::string& for_model) const;
  double LoadOn(scheduler::JobIndex job, const std::string& for_model) const;
  bool SleepsAt(const Workload& replica) const;
  bool HasFreeDevices(const config::ModelPolicy& policy) const;
  // `waits`: a waiting replica of the model whose start is chosen anew; null: none.
  scheduler::autoscale::StartChoice ChooseStartOf(const config::ModelPolicy& policy, Need need,
                                                  const Workload* waits) const;
  bool ChooseAnew(Workload& replica);
  void TickAsleep(Workload& replica);
  std::optional<scheduler::autoscale::Holder> HolderOf(const Workload& replica,
                                                       const std::string& for_model) const;
  // Replicas of other models on devices that suit, which may sleep.
  std::vector<scheduler::autoscale::Holder> HoldersThatSuit(const config::ModelPolicy& policy) const;
  void MakeRoomForWake(const Workload& sleeper);
  void MakeRoomForStart(Workload& replica);
  net::Task<void> AskToSleep(std::string id);
  net::Task<void> AskToWake(std::string id);
  net::Task<absl::Status> Call(std::string id, std::span<const plugins::engines::EngineCall> calls);
  net::Task<absl::Status> AskForOneToken(std::string id);

  net::Loop& loop_;
  const Context& context_;
  Workloads& workloads_;
  Replicas& replicas_;
  const Environment env_;
  ColdStarts falls_;   // how long falling asleep took
  ColdStarts drains_;  // how long the last requests of busy replicas took
  net::AbortGroup calls_;
  size_t under_way_ = 0;
};

}  // namespace gateway::control
