// Process: everything that `tidegate serve` runs: the shards with their threads, the control loop, the
// ledger; and what happens to all of it at start, reload and stop.
//
// Start order: configuration → store → ledger (recovery) → keys → limits (spent budgets restored) → runtime →
// shards → listeners. Stop order: readiness off → the delay → listeners → streams, up to the grace → shards →
// shares of limits and sinks → ledger. Threads: made and destroyed on the main thread; StartReload and Stop
// on the control loop's.
#pragma once

#include <absl/status/status.h>

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "gateway/admin/admin_server.h"
#include "gateway/admin/event_feed.h"
#include "gateway/admin/leader_calls.h"
#include "gateway/admin/metrics.h"
#include "gateway/admin/operations.h"
#include "gateway/admin/playground.h"
#include "gateway/admin/simulations.h"
#include "gateway/audit/deferred_events.h"
#include "gateway/audit/ledger_check.h"
#include "gateway/audit/stored_events.h"
#include "gateway/audit/usage_sharing.h"
#include "gateway/batches/service.h"
#include "gateway/config/config.h"
#include "gateway/control/control_plane.h"
#include "gateway/control/metering/device_budgets.h"
#include "gateway/control/models/model_orders.h"
#include "gateway/control/scaling/recent_traffic.h"
#include "gateway/discovery/discovery.h"
#include "gateway/feedback/service.h"
#include "gateway/ledger/indexer.h"
#include "gateway/limits/budget_watch.h"
#include "gateway/net/loop.h"
#include "gateway/people/grants.h"
#include "gateway/people/jwks.h"
#include "gateway/people/key_events.h"
#include "gateway/people/notices.h"
#include "gateway/people/projects.h"
#include "gateway/people/sessions.h"
#include "gateway/people/sign_in.h"
#include "gateway/people/terminal_sign_ins.h"
#include "gateway/process/certificates.h"
#include "gateway/process/checkpoint_copy.h"
#include "gateway/process/disk_room.h"
#include "gateway/process/end_deadline.h"
#include "gateway/process/outbound.h"
#include "gateway/process/reloads.h"
#include "gateway/process/run_time_models.h"
#include "gateway/process/server.h"
#include "gateway/process/shared_feedback.h"
#include "gateway/replicas/kv_events.h"
#include "gateway/replicas/probes.h"
#include "gateway/replicas/replica_watch.h"
#include "gateway/replicas/scrapes.h"
#include "gateway/shard/queue_ticks.h"
#include "gateway/shard/shared.h"
#include "gateway/store/followed.h"
#include "gateway/store/store.h"
#include "plugins/devices/claims.h"
#include "plugins/launchers/broker/broker.h"

namespace gateway {

class Process {
 public:
  // Everything is checked and opened, and the ports are bound, before it returns.
  // `broker`: what starts runs as other users; null: nothing may.
  static absl::StatusOr<std::unique_ptr<Process>> Start(
      Config config, std::string config_path, std::unique_ptr<plugins::launchers::Broker> broker = nullptr);
  ~Process();

  // Runs the control loop until Stop has finished everything.
  void Run();

  // Reads the configuration file again, without waiting for it, and opens the access log anew, whatever
  // becomes of the reload. Control loop's thread.
  void StartReload(std::string actor) {
    shared_.access_log.Reopen();
    reloads_.Start(std::move(actor));
  }
  // Says at once that it takes no new work, serves what comes all the same for `delay`, then drains and ends.
  // Called again, it cuts the delay short. Control loop's thread.
  void Stop(conf::Duration delay);
  // `then` runs on the control loop when the delay is over.
  void OnDrain(std::function<void()> then) { on_drain_ = std::move(then); }

  uint16_t port() const { return port_; }
  uint16_t admin_port() const { return admin_->port(); }
  uint16_t console_port() const { return console_ ? console_->port() : 0; }  // 0: there is none
  Shared& shared() { return shared_; }
  net::Loop& control() { return control_; }
  std::shared_ptr<const Runtime> runtime() const { return runtime_; }
  std::vector<std::unique_ptr<Shard>>& shards() { return shards_; }
  const Outbound& outbound() const { return outbound_; }
  const Jwks& jwks() const { return jwks_; }

 private:
  Process(std::string config_path, std::unique_ptr<plugins::launchers::Broker> broker);
  absl::Status Open(Config config);
  absl::Status OpenKeys();
  // Ends what a start that failed half-way has begun.
  void Abandon();
  absl::Status OpenAdmin();
  // A configuration of which everything that can fail has been tried, but for its record in the ledger.
  struct Prepared {
    std::shared_ptr<const Runtime> runtime;
    Certificates::Loaded certificates;
    std::vector<Jwks::Planned> issuers;
  };
  net::Task<absl::Status> Replace(Config config, std::string_view actor);
  absl::StatusOr<Prepared> Prepare(Config config);
  ledger::Event RecordOf(const Prepared& prepared, std::string_view action, std::string_view actor) const;
  absl::Status Apply(Prepared prepared);
  void Publish();
  void PublishIssuers();
  // To the shards; waiting commands continue when all shards have it.
  void PublishKeys();
  net::Task<absl::Status> Record(ledger::Event event);
  void PublishFollowed();
  // The tenants of that configuration that are in force now, with those made at run time and grants.
  std::vector<config::Tenant> TenantsInForce(const Config& configured) const;
  // What is in force of that configuration now: tenants, and adapters that were loaded at run time.
  Runtime::InForce InForce(const Config& configured) const;
  std::vector<control::ReservedDevices> ReservedNow() const;
  // Has the tenants and adapters that are in force now take effect, as a reload would; the configuration stays.
  void PublishTenants();
  absl::Status UseTenants(const std::shared_ptr<const Runtime>& runtime);
  // Beside requests, for the replicas of the runtime.
  void StartWatching();
  absl::Status OpenControl();
  // The replicas and jobs that this gateway runs; null where nothing is scaled, and while another one leads.
  control::ScalingLoop* scaling() { return control_plane_ ? control_plane_->loop() : nullptr; }
  void Serve(const Launched& launched);
  // What takes requests beside the configured endpoints: launched replicas, and discovered ones.
  Launched Added(const Config& configured) const;
  void ServeAdded();
  absl::Status OpenBatches();
  // Who a batch of that key is for now; null: the key or the tenant does not work any more.
  PrincipalRef PrincipalOf(const std::string& tenant, const std::string& key) const;
  // A request of the gateway's own, to the shard whose turn it is.
  void ServeOwn(net::Fd connection, OnBehalf caller);
  void ForEachShard(const std::function<void(Shard&, Server&)>& fn);
  // `all`: those that the start found no way to restore.
  net::Task<void> RestoreAdded(std::vector<router::limits::LimitRef> budgets, bool all = false);
  void CheckDisk();
  void RecordAttempts();
  net::Task<void> WatchDisk();
  net::Task<void> Shutdown(conf::Duration delay);

  EndDeadline end_deadline_;  // first: it watches over the end of all others
  const std::string config_path_;
  const std::unique_ptr<plugins::launchers::Broker> broker_;
  plugins::devices::DeviceClaims claims_;
  Shared shared_;
  net::Loop control_;
  std::unique_ptr<store::Store> store_;
  std::string gateway_id_;  // empty: it has its store to itself
  store::Followed followed_;
  Certificates certificates_;
  Probes probes_;
  ReplicaWatch replica_watch_;
  Scrapes scrapes_;
  KvEvents kv_events_;
  QueueTicks queue_ticks_;
  RecentTraffic recent_traffic_;
  Jwks jwks_;
  Outbound outbound_;
  std::unique_ptr<ledger::Indexer> indexer_;
  ConnectionCounts connections_;
  std::shared_ptr<const Runtime> runtime_;
  Launched launched_;  // replicas that were started here and take requests
  bool tenants_refused_ =
      false;  // what was made at run time is not in force as stored; tried again with other replicas
  discovery::Discovery discovery_;
  std::shared_ptr<const PrincipalIndex> principals_;
  std::vector<std::unique_ptr<Shard>> shards_;
  std::vector<std::unique_ptr<Server>> servers_;
  std::vector<std::thread> threads_;
  std::unique_ptr<KeyEvents> key_events_;
  std::unique_ptr<LedgerCheck> ledger_check_;
  std::unique_ptr<Sessions> sessions_;
  std::unique_ptr<TerminalSignIns> terminal_sign_ins_;
  std::unique_ptr<Projects> projects_;
  std::unique_ptr<Grants> grants_;
  std::unique_ptr<BudgetWatch> budget_watch_;
  Notices notices_;
  SignIn sign_in_;
  std::unique_ptr<plugins::auth::JwtAuthenticator> admin_tokens_;  // null: no issuer is configured
  std::unique_ptr<DeferredEvents> deferred_events_;
  std::unique_ptr<StoredEvents> stored_events_;
  std::unique_ptr<batches::Service> batches_;
  std::unique_ptr<feedback::Service> feedback_;
  std::unique_ptr<CheckpointCopy> checkpoint_copy_;
  DeviceCharges device_charges_{shared_.limits};
  std::unique_ptr<control::ModelOrders> model_orders_;
  std::unique_ptr<RunTimeModels> run_time_models_;
  std::unique_ptr<control::ControlPlane> control_plane_;
  std::unique_ptr<UsageSharing> usage_sharing_;       // null: no other gateway uses the store
  std::unique_ptr<SharedFeedback> shared_feedback_;   // null: likewise
  std::unique_ptr<admin::LeaderCalls> leader_calls_;  // null: likewise
  Reloads reloads_;
  Operations operations_;
  admin::Playground playground_{control_, [this](net::Fd connection, OnBehalf caller) {
                                  ServeOwn(std::move(connection), std::move(caller));
                                }};
  size_t next_own_ = 0;
  admin::Simulations simulations_;
  Metrics metrics_;
  admin::EventFeed events_;
  std::unique_ptr<admin::AdminServer> admin_;
  std::unique_ptr<admin::AdminServer> console_;  // the listener for people; null: they come to admin_
  std::unique_ptr<DiskRoom> disk_room_;
  net::Sleep disk_poll_;
  net::Sleep stop_delay_;
  std::function<void()> on_drain_ = [] {};
  conf::TimePoint attempts_recorded_{};
  bool budgets_known_ = true;  // what was spent before this start counts
  conf::TimePoint ledger_opened_{};
  uint16_t port_ = 0;
  bool stopping_ = false;
};

}  // namespace gateway
