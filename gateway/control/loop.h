// ControlLoop: from load to replicas. Ten times a second it adds up what models are asked for, asks each
// one's autoscaler how many replicas there should be, the planner where, and has the launcher start and stop
// them; those that are ready take requests as if they stood in the configuration.
//
// Decides nothing itself: laws and planner are pure (scheduler/). Nothing is done before it is in the ledger
// with its reason; while the ledger cannot write, what is there goes on. At its beginning it takes over what
// a process before it has left running.
//
// Owner: the Process. Thread: the control loop's.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "gateway/admin/turns.h"
#include "gateway/control/cold_starts.h"
#include "gateway/control/crash_loop.h"
#include "gateway/control/fleet.h"
#include "gateway/control/fleet_file.h"
#include "gateway/control/history.h"
#include "gateway/control/jobs/jobs.h"
#include "gateway/control/metering.h"
#include "gateway/control/node_watch.h"
#include "gateway/control/planning.h"
#include "gateway/control/signals.h"
#include "gateway/control/status.h"
#include "gateway/ledger/record.h"
#include "gateway/net/abort_group.h"
#include "gateway/net/loop.h"
#include "gateway/runtime.h"
#include "plugins/launchers/launcher.h"

namespace gateway::control {

// What the loop sees and does of the rest of the process.
struct Surroundings {
  std::function<std::shared_ptr<const Runtime>()> runtime;
  std::function<std::vector<const ShardMetrics*>()> shards;
  // On disk when it returns.
  std::function<net::Task<absl::Status>(ledger::Event)> record;
  // These take requests from now on, and no others that were launched.
  std::function<void(const Launched&)> publish;
  router::ReplicaStates* replicas = nullptr;
  Outlooks* outlooks = nullptr;
  // Of the ledger, for who pays for devices; and what is done with that once it is on disk.
  std::function<std::unique_ptr<MeterLedger>()> meter;
  std::function<void(std::span<const ledger::DeviceRecord>)> charge;
  // Why a tenant may start nothing on devices of these kinds now; empty: it may.
  std::function<std::string(const std::string& tenant, std::span<const std::string> kinds)> devices_used_up;
  std::string file;       // of the fleet
  std::string jobs_file;  // of the jobs
};

class ControlLoop final : private net::Alarm {
 public:
  ControlLoop(net::Loop& loop, std::unique_ptr<plugins::launchers::Launcher> launcher,
              const config::Scaling& scaling, Surroundings around);
  ~ControlLoop() override;

  // Takes over what runs, then begins.
  void Start();
  // Policies may have changed.
  void Configure(const Runtime& runtime);
  // Somebody has come to wait where nobody did.
  void OnWaiting();
  // Ends; replicas are stopped first unless they are to be kept.
  net::Task<void> Close(bool keep);

  Status status(conf::TimePoint now) const;
  // Of a model that has a policy; nothing of others.
  std::optional<ScalingHistory> history(const std::string& model) const;
  // Null until it is known what runs.
  Jobs* jobs() { return begun_ ? &jobs_ : nullptr; }
  const scheduler::Planner* planner() { return begun_ ? &planning_.planner() : nullptr; }

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
    scheduler::autoscale::Signals signals;
    scheduler::autoscale::Decision decision;
    History history;
    std::string capacity_by;
    std::string trouble;
  };

  JobsAround AroundJobs(const config::Scaling& scaling);
  void OnAlarm() override;
  void Wake() { SetAfter(conf::Duration::zero()); }

  // --- loop.cc: what there should be ---
  void DecideAll(conf::TimePoint now);
  void Decide(Pool& pool, conf::TimePoint now);
  void Reckon(Pool& pool, conf::TimePoint now);
  void Keep(Pool& pool, uint64_t came, conf::TimePoint now);
  double Occupied(const Pool& pool, const router::RoomSpec& room, conf::TimePoint now) const;
  void Place(conf::TimePoint now);
  void Tend(conf::TimePoint now);
  void Tell(Pool& pool);
  std::vector<ClassStatus> ClassesOf(const Pool& pool, conf::TimePoint now) const;
  void Publish(conf::TimePoint now);
  void Retire(Replica& replica, std::string why, conf::TimePoint now);
  void Fail(Replica& replica, std::string why, conf::TimePoint now, bool blameless = false);
  Pool* PoolOf(const Replica& replica);

  // --- steps.cc: what is done about it ---
  bool NeedsStep(const Replica& replica, conf::TimePoint now) const;
  void TakeSteps(conf::TimePoint now);
  net::Task<void> Step(uint32_t id);
  net::Task<void> Launch(uint32_t id);
  net::Task<void> Probe(uint32_t id);
  net::Task<void> Stop(uint32_t id);
  net::Task<bool> Record(uint32_t id);
  net::Task<absl::Status> Save();
  net::Task<void> Look();
  void Miss(Replica& replica, conf::TimePoint now);
  void Compare(const std::vector<plugins::launchers::RunStatus>& runs, conf::TimePoint now);
  void FoundOrphan(const plugins::launchers::RunStatus& run);
  net::Task<void> EndOrphan(std::string run, bool ended);
  net::Task<void> Begin();
  bool GivesUp() const;
  net::Task<void> OpenJobs();
  std::vector<HeldDevices> Held() const;
  void TakeOver(const std::vector<FleetEntry>& entries,
                const std::vector<plugins::launchers::RunStatus>& runs, conf::TimePoint now);

  // --- devices.cc: which devices have a fault ---
  void WatchDevices(conf::TimePoint now);
  net::Task<void> TellOfFaults();
  void Lose(const plugins::launchers::DeviceFault& fault, conf::TimePoint now);

  // --- nodes.cc: which nodes are trusted ---
  void WatchNodes(conf::TimePoint now);
  void SetAside(Replica& replica, conf::TimePoint now);
  net::Task<void> AskNode(std::string name);
  net::Task<void> HearNode(std::string name);
  net::Task<absl::Status> MayStartOn(std::string name);
  net::Task<void> TellOfNodes();
  void SeeNodes(conf::TimePoint now);
  std::vector<NodeStatus> Doubts() const;
  std::vector<std::string> InWords() const;

  net::Loop& loop_;
  const std::unique_ptr<plugins::launchers::Launcher> launcher_;
  const Surroundings around_;
  Planning planning_;
  Jobs jobs_;
  NodeWatch node_watch_;                  // of a cluster that others use too
  uint64_t watched_version_ = 0;          // of what the launcher says of that: what the watch has seen
  std::set<std::string> suspects_;        // the watch's, once they are in the ledger
  uint64_t suspects_version_ = 0;         // another with each change
  std::pair<uint64_t, uint64_t> seen_{};  // versions of both, as the planner was told
  std::set<std::string> asking_;          // nodes
  bool telling_ = false;
  conf::TimePoint next_telling_{};
  std::vector<plugins::launchers::DeviceFault> faults_;  // once they are in the ledger
  bool telling_of_faults_ = false;
  conf::TimePoint next_faults_{};
  std::vector<std::string> left_out_;  // by the launcher, as last told
  Fleet fleet_;
  Metering metering_;
  ColdStarts cold_starts_;
  std::map<std::string, Pool> pools_;
  std::map<std::string, std::vector<uint32_t>> published_;  // by model
  std::set<std::string> orphans_;                           // being ended
  admin::Turns saves_;
  uint64_t changes_ = 0;  // of what stands in the file
  uint64_t saved_ = 0;    // of those, on disk
  net::AbortGroup fetches_;
  net::Sleep pause_;
  std::string trouble_;
  const conf::TimePoint began_;
  conf::TimePoint next_decision_{};
  conf::TimePoint next_look_{};
  uint64_t launches_ = 0;
  uint64_t failures_ = 0;
  size_t under_way_ = 0;
  bool urgent_ = false;
  bool looking_ = false;
  bool looked_ = false;  // once, since it began
  bool begun_ = false;
  bool closing_ = false;
  bool keep_ = false;             // closing: what runs
  conf::TimePoint give_up_at_{};  // closing: ending it
};

}  // namespace gateway::control
