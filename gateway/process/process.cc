#include "gateway/process/process.h"
#include "gateway/shard/principals.h"

#include <fmt/format.h>
#include <openssl/rand.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <set>

#include "conf/shown.h"
#include "conf/text.h"
#include "gateway/audit/content_erasure.h"
#include "gateway/config/state_files.h"
#include "gateway/console/console.h"
#include "gateway/control/launching/open_launcher.h"
#include "gateway/discovery/open_source.h"
#include "gateway/ledger/request_id.h"
#include "gateway/limits/budgets.h"
#include "gateway/log.h"
#include "gateway/net/clock.h"
#include "gateway/net/off_loop.h"
#include "gateway/people/overlay.h"
#include "gateway/process/applied_config.h"
#include "gateway/process/claim_devices.h"
#include "gateway/process/ledger_options.h"
#include "gateway/process/open_state.h"
#include "gateway/request/batch_line.h"
#include "gateway/thread.h"

namespace gateway {
namespace {

constexpr conf::Duration kAbandon = std::chrono::seconds(10);
constexpr conf::Duration kDiskPoll = std::chrono::seconds(1);
constexpr conf::Duration kRecordAttempts = std::chrono::minutes(1);
constexpr conf::Duration kRecordsPatience = std::chrono::seconds(25);  // at the end; sinks have 5 s of it
constexpr conf::Duration kRestoreRetry = std::chrono::seconds(1);
constexpr conf::Duration kIndexInterval = std::chrono::seconds(1);
// Each connection wakes all that accept. One alone would make all wait while it is busy.
constexpr uint32_t kAcceptingShards = 4;
constexpr std::string_view kBearerPrefix = "jwt:";  // of the id of a token's bearer
constexpr size_t kAdminTokenBytes = 1 << 20;        // of tokens that were verified

uint64_t RandomSeed() {
  uint64_t seed = 0;
  RAND_bytes(reinterpret_cast<unsigned char*>(&seed), sizeof seed);
  return seed;
}

std::string MachineName() {
  std::array<char, 256> host{};
  gethostname(host.data(), host.size() - 1);
  return host.data();
}

}  // namespace

Process::Process(std::string config_path, std::unique_ptr<plugins::launchers::Broker> broker)
    : config_path_(std::move(config_path)),
      broker_(std::move(broker)),
      control_([](const std::exception_ptr& error) { log::Exception("control task", error); }),
      certificates_(control_, [this]() -> const config::Server& { return runtime_->config().server; }),
      probes_(control_),
      replica_watch_(control_),
      scrapes_(control_, shared_.prefixes, RandomSeed()),
      kv_events_(control_, shared_.prefixes, shared_.computed),
      queue_ticks_(control_.watchdog, shared_.queues, [this] { return runtime_; }),
      recent_traffic_(control_.watchdog, [this] { return operations_.shards(); }),
      jwks_(control_,
            [this](size_t issuer, const plugins::auth::PublishedKeys& keys) {
              ForEachShard([issuer, keys](Shard& shard, Server&) { shard.SetJwtKeys(issuer, keys); });
              if (admin_tokens_) admin_tokens_->SetKeys(issuer, keys);
            }),
      outbound_(control_, shared_, [this] { return metrics_.Collect(); }),
      discovery_(
          control_,
          [this](const config::Discovery& of, discovery::Source::Listener listener) {
            const std::optional<config::Kubernetes>& at = runtime_->config().kubernetes;
            const plugins::kubernetes::Place place =
                at ? plugins::kubernetes::Place{at->kubeconfig, at->context, at->name_space}
                   : plugins::kubernetes::Place();
            return discovery::OpenSource(control_, of, place, std::move(listener));
          },
          [this] { ServeAdded(); }),
      notices_(
          control_,
          [this] { return runtime_ ? runtime_->config().people.webhook : std::optional<config::Webhook>(); }),
      sign_in_(control_, [this]() -> const Config& { return runtime_->config(); }),
      reloads_(
          control_, config_path_,
          [this](Config config, std::string_view actor) { return Replace(std::move(config), actor); },
          [this](ledger::Event event) { deferred_events_->Add(std::move(event)); }),
      metrics_(operations_),
      events_(control_, operations_, net::Now()),
      disk_poll_(control_.watchdog),
      stop_delay_(control_.watchdog) {
  shared_.on_unknown_key_id = [this](size_t issuer) {
    control_.Post([this, issuer] { jwks_.OnUnknownKeyId(issuer); });
  };
  shared_.computed.on_first = [this] { control_.Post([this] { kv_events_.OnComputed(); }); };
  shared_.queues.on_waiting = [this] {
    control_.Post([this] {
      queue_ticks_.Begin();
      if (control_plane_) control_plane_->OnWaiting();
      if (run_time_models_) run_time_models_->OnWaiting();
    });
  };
}

Process::~Process() {
  shared_.keys.reset();         // they follow the store
  shared_.traces.reset();       // it runs on the control loop
  shared_.routing_log.reset();  // what waits there still holds runtimes
}

absl::StatusOr<std::unique_ptr<Process>> Process::Start(Config config, std::string config_path,
                                                        std::unique_ptr<plugins::launchers::Broker> broker) {
  std::unique_ptr<Process> process(new Process(std::move(config_path), std::move(broker)));
  if (absl::Status opened = process->Open(std::move(config)); !opened.ok()) {
    process->Abandon();
    return opened;
  }
  return process;
}

void Process::Abandon() {
  stopping_ = true;
  if (deferred_events_) deferred_events_->Close();
  jwks_.Stop();
  sign_in_.Stop();
  if (shared_.keys) shared_.keys->Stop();
  if (key_events_) key_events_->Stop();
  if (sessions_) sessions_->Stop();
  if (projects_) projects_->Stop();
  if (grants_) grants_->Stop();
  if (budget_watch_) budget_watch_->Stop();
  notices_.Stop();
  if (stored_events_) stored_events_->Stop();
  if (batches_) batches_->Stop();
  if (feedback_) feedback_->Stop();
  if (checkpoint_copy_) checkpoint_copy_->Stop();
  if (model_orders_) model_orders_->Stop();
  if (run_time_models_) run_time_models_->Stop();
  if (control_plane_) control_plane_->Abandon();
  if (usage_sharing_) usage_sharing_->Abandon();
  if (leader_calls_) leader_calls_->Stop();
  if (shared_feedback_) shared_feedback_->Stop();
  events_.Close();
  if (admin_) admin_->Close();
  if (console_) console_->Close();
  for (size_t i = 0; i < servers_.size(); ++i) {
    servers_[i]->Drain();
    shards_[i]->loop.Stop();
    shards_[i]->loop.io.run_for(kAbandon);
  }
  control_.tasks.Spawn(outbound_.Stop());
  control_.Stop();
  control_.io.run_for(kAbandon);
}

absl::Status Process::Open(Config config) {
  std::error_code error;
  std::filesystem::create_directories(config.server.state_dir, error);
  if (error) {
    return absl::FailedPreconditionError(
        fmt::format("state_dir {}: {}", config.server.state_dir, error.message()));
  }
  const uint32_t shards = ShardsOf(config);
  shared_.state_dir = config.server.state_dir;
  disk_room_ = std::make_unique<DiskRoom>(shared_.state_dir);
  disk_room_->Begin(config.ledger.min_free_bytes);
  // Before there is a ledger: one without a store means that the store was lost.
  auto store = OpenState(control_, config, true);
  if (!store.ok()) return store.status();
  store_ = *std::move(store);
  if (config.state) {
    absl::StatusOr<std::string> id = GatewayId(shared_.state_dir);
    if (!id.ok()) return id.status();
    gateway_id_ = *std::move(id);
    shared_.request_tag = ledger::TagOfGateway(gateway_id_);
  }
  auto ledger = ledger::Ledger::Open(LedgerOptions(config));
  if (!ledger.ok()) return ledger.status();
  shared_.ledger = *std::move(ledger);
  ledger_opened_ = net::Now();
  auto content_keys = ledger::ContentKeys::Open(ContentKeyOptions(config));
  if (!content_keys.ok()) return content_keys.status();
  shared_.content_keys = *std::move(content_keys);
  shared_.routing_log = std::make_unique<routing::RoutingLog>(shared_.state_dir);
  if (absl::Status keys = OpenKeys(); !keys.ok()) return keys;

  const std::vector<config::Address> listen = config.server.listen;
  absl::StatusOr<Prepared> prepared = Prepare(std::move(config));
  if (!prepared.ok()) return prepared.status();
  // A ledger that cannot write yet is no reason to stay away: it refuses requests, and the record follows.
  deferred_events_ = std::make_unique<DeferredEvents>(control_, *shared_.ledger);
  ledger::Event loaded_event = RecordOf(*prepared, "loaded", "start");
  budgets_known_ = shared_.ledger->Healthy();
  if (!budgets_known_) {
    deferred_events_->Add(std::move(loaded_event));
  } else if (absl::Status recorded = shared_.ledger->Append(std::move(loaded_event)); !recorded.ok()) {
    return recorded;
  }
  if (budgets_known_) {
    const absl::Status recorded =
        RecordErasures(*shared_.content_keys, *shared_.ledger, shared_.content_keys->Unrecorded());
    if (!recorded.ok()) {
      log::Warn("the ledger could not record that content was erased; the next start tries again",
                {{"why", conf::Std(recorded.message())}});
    }
  }
  if (absl::Status applied = Apply(*std::move(prepared)); !applied.ok()) return applied;
  const std::string ledger_dir = LedgerDir(runtime_->config());
  std::vector<router::limits::LimitRef> budgets = BudgetsBeside(shared_.limits, {});
  if (!budgets_known_) {
    control_.tasks.Spawn(RestoreAdded(std::move(budgets), true));
  } else if (absl::Status restored =
                 RestoreBudgets(budgets, *shared_.ledger, ledger_dir, *principals_->keys, net::Now());
             !restored.ok()) {
    return restored;
  }
  if (absl::Status started = outbound_.Start(runtime_->config(), *store_); !started.ok()) return started;
  if (!net::Await(control_, outbound_.AwaitShares()))
    log::Warn("this gateway uses only its part of each limit until Redis has answered", {});
  indexer_ = std::make_unique<ledger::Indexer>(ledger_dir, kIndexInterval);
  std::vector<std::shared_ptr<net::ListeningSocket>> listeners;
  for (config::Address address : listen) {
    if (address.port == 0) address.port = port_;  // all share the port of the first
    auto listener = net::ListeningSocket::Open(ToString(address));
    if (!listener.ok()) return listener.status();
    if (port_ == 0) port_ = (*listener)->port();
    listeners.push_back(*std::move(listener));
  }
  for (uint32_t i = 0; i < shards; ++i) {
    shards_.push_back(std::make_unique<Shard>(i, shared_, RandomSeed()));
    shards_.back()->Swap(runtime_, principals_);
    for (size_t k = 0; const plugins::auth::PublishedKeys& keys : jwks_.published()) {
      shards_.back()->SetJwtKeys(k++, keys);
    }
    servers_.push_back(std::make_unique<Server>(
        *shards_.back(), connections_, runtime_->config().server.tls ? &certificates_.listen() : nullptr));
    for (const std::shared_ptr<net::ListeningSocket>& listener : listeners) {
      if (absl::Status joined = servers_.back()->Listen(listener, i < kAcceptingShards); !joined.ok())
        return joined;
    }
  }
  if (absl::Status opened = OpenAdmin(); !opened.ok()) return opened;
  CheckDisk();
  return OpenControl();
}

absl::Status Process::OpenKeys() {
  shared_.keys = std::make_unique<Keys>(control_, *store_);
  if (absl::Status started = net::Await(control_, shared_.keys->Start()); !started.ok()) return started;
  shared_.keys->OnTable([this] { PublishKeys(); });
  projects_ = std::make_unique<Projects>(control_, *store_);
  if (absl::Status started = net::Await(control_, projects_->Start()); !started.ok()) return started;
  grants_ = std::make_unique<Grants>(control_, *store_);
  if (absl::Status started = net::Await(control_, grants_->Start()); !started.ok()) return started;
  using enum admin::FeedEvent::Audience;
  projects_->OnChange([this] {
    PublishTenants();
    events_.Changed("tenants", kAll, Permission::kSeeTenants);
  });
  grants_->OnChange([this] {
    PublishTenants();
    events_.Changed("grants", kAll, Permission::kSeeLimits);
    events_.Changed("requests", kAll, Permission::kAsk);
  });
  grants_->OnNotice([this](const Grants::Notice& notice) { notices_.Add(notice); });
  sign_in_.LetIn([this](const Person& person) { return !projects_->RolesOf(person).empty(); });
  return absl::OkStatus();
}

absl::Status Process::OpenControl() {
  const Config& config = runtime_->config();
  control::RunUsers users;
  if (config.scaling) {
    auto of = control::RunUsers::Of(config, broker_ != nullptr, geteuid() == 0);
    if (!of.ok()) return of.status();
    users = *std::move(of);
    if (!users.trouble().empty()) log::Warn("runs share users", {{"why", users.trouble()}});
    auto claims = ClaimDevices(*config.scaling, users.names());
    if (!claims.ok()) return claims.status();
    claims_ = *std::move(claims);
  }
  config::Address address = config.server.admin;
  address.port = admin_->port();
  if (config.state) shared_feedback_ = std::make_unique<SharedFeedback>(control_, *store_, *feedback_);
  control_plane_ = std::make_unique<control::ControlPlane>(
      control_,
      control::ControlPlane::Options{.name = fmt::format("{}:{}", MachineName(), address.port),
                                     .id = gateway_id_,
                                     .version = TIDEGATE_VERSION,
                                     .address = ToString(address),
                                     .public_key = shared_feedback_ ? shared_feedback_->public_key() : "",
                                     .shared = config.state.has_value(),
                                     .scales = config.scaling.has_value()},
      control::ControlPlane::Environment{
          .open_launcher =
              [this, users] {
                return control::OpenLauncher(control_, runtime_->config(), users, broker_.get());
              },
          .loop = {.runtime = [this] { return runtime_; },
                   .shards = operations_.shards,
                   .record = [this](ledger::Event event) { return Record(std::move(event)); },
                   .publish = [this](const Launched& launched) { Serve(launched); },
                   .replicas = &shared_.replicas,
                   .scaling_hints = &shared_.scaling_hints,
                   .meter =
                       [this] {
                         return MeterLedgerOf(*shared_.ledger, LedgerDir(runtime_->config()), ledger_opened_);
                       },
                   .charge =
                       [this](std::span<const ledger::DeviceRecord> records) {
                         device_charges_.Charge(records, net::Now());
                       },
                   .devices_used_up =
                       [this](const std::string& tenant, std::span<const std::string> kinds) {
                         return WhyDevicesUsedUp(shared_.limits, tenant, kinds, net::Now());
                       },
                   .no_room =
                       [this] {
                         CheckDisk();
                         return disk_room_->trouble();
                       },
                   .store = store_.get(),
                   .rollouts = &run_time_models_->rollouts(),
                   .ratings =
                       [this, ledger = LedgerDir(config)](const auto& model, const auto& name, auto since) {
                         return control::RatingsOf(ledger, operations_.usage_of_others, model, name, since);
                       },
                   .held = [this](const std::string& model,
                                  conf::TimePoint now) { return model_orders_->Held(model, now); },
                   .reserved = [this] { return ReservedNow(); },
                   .users = users,
                   .state_dir = config.server.state_dir},
          .changed =
              [this] {
                events_.Changed("gateways", admin::FeedEvent::Audience::kAll, Permission::kSeeReplicas);
              },
          .workloads_changed =
              [this] {
                events_.Changed("replicas", admin::FeedEvent::Audience::kAll, Permission::kSeeReplicas);
                events_.Changed("jobs", admin::FeedEvent::Audience::kAll, Permission::kSeeJobs);
              },
          .adapters = [this] { return run_time_models_->loads().UsesHere(); }});
  if (absl::Status opened = control_plane_->Open(); !opened.ok()) return opened;
  if (!control_plane_->shared()) return absl::OkStatus();
  auto others = FindUsageOfOthers(config);
  if (!others.ok()) return others.status();
  (*others)->gateway = control_plane_->name();
  operations_.usage_of_others = *others;
  usage_sharing_ =
      std::make_unique<UsageSharing>(control_, *store_,
                                     UsageSharing::Options{.source = (*others)->source,
                                                           .gateway = (*others)->gateway,
                                                           .ledger_dir = LedgerDir(config),
                                                           .copy_path = (*others)->copy_path,
                                                           .retention = config.ledger.retention.age},
                                     [this] { return shared_.ledger->Flush(); });
  operations_.usage_sharing = usage_sharing_.get();
  leader_calls_ = std::make_unique<admin::LeaderCalls>(
      control_, *store_,
      admin::LeaderCalls::Options{
          .name = control_plane_->process_name(),
          .leads = [this] { return control_plane_->leads() && scaling() != nullptr; },
          .serve = [this](admin::PassedCall call) { return admin_->Serve(std::move(call)); }});
  if (absl::Status started = net::Await(control_, leader_calls_->Start()); !started.ok()) return started;
  return shared_feedback_->Open(gateway_id_, *control_plane_, **others);
}

// Of what the control loop does; those who follow hear of it once it is on disk.
net::Task<absl::Status> Process::Record(ledger::Event event) {
  const absl::Status recorded =
      co_await net::OffLoop(control_, [this, &event] { return shared_.ledger->Append(event); });
  if (recorded.ok()) events_.Note(event);
  co_return recorded;
}

Launched Process::Added(const Config& configured) const {
  Launched added = discovery_.Endpoints(configured);
  for (const auto& [model, replicas] : launched_) {
    auto& all = added[model];
    all.insert(all.end(), replicas.begin(), replicas.end());
  }
  return added;
}

void Process::Serve(const Launched& launched) {
  launched_ = launched;
  ServeAdded();
}

void Process::ServeAdded() {
  absl::StatusOr<std::shared_ptr<const Runtime>> runtime =
      runtime_->With(Added(runtime_->configured()), shared_.learned());
  if (!runtime.ok()) {
    log::Error("replicas cannot be routed to", {{"why", conf::Std(runtime.status().message())}});
    return;
  }
  runtime_ = *std::move(runtime);
  Publish();
  if (tenants_refused_) PublishTenants();  // with these replicas they may be valid
  if (threads_.empty()) return;            // Run() begins to watch
  StartWatching();
  for (const ModelRuntime& model : runtime_->models())
    model.waits->WakeNext(runtime_->SupplyOf(model.waits->model()), net::Now());
}

void Process::StartWatching() {
  probes_.Start(runtime_);
  replica_watch_.Start(runtime_);
  scrapes_.Start(runtime_);
  kv_events_.Start(runtime_);
}

absl::Status Process::OpenAdmin() {
  const Config& config = runtime_->config();
  stored_events_ = std::make_unique<StoredEvents>(
      control_, *store_, *shared_.ledger, [this](const ledger::Event& event) { events_.Note(event); });
  if (absl::Status carried = net::Await(control_, stored_events_->Start()); !carried.ok()) return carried;
  checkpoint_copy_ = std::make_unique<CheckpointCopy>(control_, *store_, LedgerDir(config));
  if (absl::Status compared = net::Await(control_, checkpoint_copy_->Start()); !compared.ok())
    return compared;
  key_events_ = std::make_unique<KeyEvents>(control_, *store_, *shared_.ledger, LedgerDir(config));
  if (absl::Status carried = net::Await(control_, key_events_->Start()); !carried.ok()) return carried;
  if (absl::Status opened = followed_.Open(FollowedPath(config)); !opened.ok()) return opened;
  sessions_ = std::make_unique<Sessions>(control_, *store_, [this]() -> SessionTerms {
    const config::PeopleSessions& sessions = runtime_->config().people.sessions;
    return {sessions.idle, sessions.lifetime};
  });
  if (absl::Status started = net::Await(control_, sessions_->Start()); !started.ok()) return started;
  model_orders_ = std::make_unique<control::ModelOrders>(
      control_, *store_, shared_.switches,
      control::ModelOrders::Environment{
          .record = [this](ledger::Event event) { return Record(std::move(event)); },
          .changed =
              [this] {
                events_.Changed("models", admin::FeedEvent::Audience::kAll, Permission::kSeeModels);
              }});
  if (absl::Status started = net::Await(control_, model_orders_->Start()); !started.ok()) return started;
  budget_watch_ = std::make_unique<BudgetWatch>(
      control_, *store_, shared_.limits, [this] { return runtime_->config().people.budget_thresholds; },
      [this](const router::limits::LimitState& budget, uint32_t percent) {
        notices_.Add("budget.threshold", ThresholdNotice(budget, percent));
      });
  budget_watch_->Start();
  if (absl::Status opened = OpenBatches(); !opened.ok()) return opened;
  feedback_ =
      std::make_unique<feedback::Service>(LedgerDir(config), *shared_.ledger, shared_.content_keys.get());
  shared_.feedback = feedback_.get();
  operations_.shared = &shared_;
  operations_.model_orders = model_orders_.get();
  operations_.sessions = sessions_.get();
  ledger_check_ = std::make_unique<LedgerCheck>(LedgerDir(config));
  operations_.ledger_check = ledger_check_.get();
  terminal_sign_ins_ = std::make_unique<TerminalSignIns>(*store_, *sessions_);
  operations_.terminal_sign_ins = terminal_sign_ins_.get();
  operations_.sign_in = &sign_in_;
  operations_.projects = projects_.get();
  operations_.grants = grants_.get();
  operations_.budget_watch = budget_watch_.get();
  operations_.tokens = [this] { return admin_tokens_.get(); };
  operations_.port = [this] { return port_; };
  operations_.playground = &playground_;
  operations_.simulations = &simulations_;
  operations_.key_events = key_events_.get();
  operations_.runtime = [this] { return runtime_; };
  operations_.shards = [this] {
    std::vector<const ShardMetrics*> all;
    all.reserve(shards_.size());
    for (const std::unique_ptr<Shard>& shard : shards_) all.push_back(&shard->metrics);
    return all;
  };
  operations_.metrics = [this] { return metrics_.Render(); };
  operations_.outbound = [this] { return outbound_.status(net::Now()); };
  operations_.kv_events = [this] { return kv_events_.status(); };
  operations_.discovery = [this] { return discovery_.status(); };
  operations_.issuers = [this] { return jwks_.status(net::Now()); };
  operations_.reloads = [this] { return reloads_.state(); };
  operations_.events = &events_;
  operations_.record = [this](ledger::Event event) {
    events_.Note(event);
    deferred_events_->Add(std::move(event));
  };
  operations_.content_erased = [this] { control_.Post([this] { Publish(); }); };
  operations_.ledger_trouble = [this] { return checkpoint_copy_->trouble(); };
  operations_.jobs = [this] { return scaling() ? scaling()->jobs() : nullptr; };
  operations_.cordons = [this] { return scaling() ? scaling()->cordons() : nullptr; };
  operations_.planner = [this] { return scaling() ? scaling()->planner() : nullptr; };
  operations_.scaling = [this] {
    return control_plane_ ? control_plane_->status(net::Now()) : control::Status();
  };
  operations_.scaling_history = [this](const std::string& model) {
    return scaling() ? scaling()->history(model) : std::nullopt;
  };
  operations_.control_plane = [this] { return control_plane_.get(); };
  operations_.leader_calls = [this] {
    return control_plane_ && control_plane_->follows() ? leader_calls_.get() : nullptr;
  };
  operations_.traffic = [this] { return recent_traffic_.Rows(net::Now()); };
  operations_.page = console::Find;
  operations_.reload = [this](std::string actor) { return reloads_.Reload(std::move(actor)); };
  run_time_models_ = std::make_unique<RunTimeModels>(
      control_, *store_,
      RunTimeModels::Environment{.record = [this](ledger::Event event) { return Record(std::move(event)); },
                                 .runtime = operations_.runtime,
                                 .control_plane = [this] { return control_plane_.get(); },
                                 .publish = [this] { PublishTenants(); },
                                 .changed =
                                     [this] {
                                       events_.Changed("models", admin::FeedEvent::Audience::kAll,
                                                       Permission::kSeeModels);
                                     }});
  if (absl::Status opened = run_time_models_->Open(); !opened.ok()) return opened;
  operations_.adapters = &run_time_models_->adapters();
  operations_.adapter_loads = &run_time_models_->loads();
  operations_.rollouts = [this] { return scaling() ? scaling()->rollouts() : nullptr; };
  auto admin = admin::AdminServer::Listen(control_, operations_, config.server.admin,
                                          config.server.admin_tls ? &certificates_.admin() : nullptr);
  if (!admin.ok()) return admin.status();
  admin_ = *std::move(admin);
  if (!config.server.console) return absl::OkStatus();
  auto console = admin::AdminServer::Listen(control_, operations_, *config.server.console,
                                            config.server.console_tls ? &certificates_.console() : nullptr,
                                            admin::AdminServer::Audience::kPeople);
  if (!console.ok()) return console.status();
  console_ = *std::move(console);
  return absl::OkStatus();
}

absl::Status Process::OpenBatches() {
  batches_ = std::make_unique<batches::Service>(
      control_, *store_, shared_.content_keys.get(), FilesDir(shared_.state_dir),
      batches::Batches::Environment{
          .runtime = [this] { return runtime_; },
          .principal = [this](const std::string& tenant,
                              const std::string& key) { return PrincipalOf(tenant, key); },
          .send =
              [this](batches::LineCall call) {
                return SendBatchLine(
                    control_,
                    [this](net::Fd connection, OnBehalf owner) {
                      ServeOwn(std::move(connection), std::move(owner));
                    },
                    std::move(call));
              },
          .sharing = {.gateway = gateway_id_, .lives = [this](const std::string& gateway) {
                        // Without a control plane yet, nobody is known to be gone.
                        return !control_plane_ || control_plane_->Lives(gateway);
                      }}});
  shared_.batches = batches_.get();
  return net::Await(control_, batches_->Start());
}

PrincipalRef Process::PrincipalOf(const std::string& tenant, const std::string& key) const {
  const PrincipalRef* const of_key = principals_->ForKey(key);
  const bool by_tenant = key.empty() || key.starts_with(kBearerPrefix);
  const PrincipalRef* const found = by_tenant ? principals_->ForTenant(tenant) : of_key;
  return found == nullptr ? nullptr : *found;
}

absl::StatusOr<Process::Prepared> Process::Prepare(Config config) {
  if (runtime_) {
    if (absl::Status fixed = CheckUnchanged(runtime_->config(), config); !fixed.ok()) return fixed;
  }
  const Launched added = Added(config);
  auto runtime = Runtime::Build(std::move(config), shared_.learned(), net::Now(), added);
  if (runtime.ok())
    runtime = (*runtime)->WithInForce(InForce((*runtime)->config()), added, shared_.learned());
  if (!runtime.ok()) return runtime.status();
  auto certificates = Certificates::Load((*runtime)->config().server);
  if (!certificates.ok()) return certificates.status();
  auto issuers = jwks_.Plan((*runtime)->config().auth.jwt);
  if (!issuers.ok()) return issuers.status();
  std::vector<std::string> tenants;
  for (const TenantRuntime& tenant : (*runtime)->tenants()) tenants.push_back(tenant.path);
  if (absl::Status made = shared_.content_keys->Ensure(tenants); !made.ok()) return made;
  return Prepared{*std::move(runtime), *std::move(certificates), *std::move(issuers)};
}

ledger::Event Process::RecordOf(const Prepared& prepared, std::string_view action,
                                std::string_view actor) const {
  ledger::Event event;
  event.kind = ledger::Kind::kConfig;
  event.action = action;
  event.actor = actor;
  event.subject = config_path_;
  event.detail = fmt::format("{{\"sha256\":\"{}\"}}", prepared.runtime->hash());
  return event;
}

absl::Status Process::Apply(Prepared prepared) {
  const std::set<std::string> budgets = BudgetIds(shared_.limits);
  if (absl::Status limits = shared_.limits.Update(prepared.runtime->LimitNodes()); !limits.ok())
    return limits;
  // Nothing can fail from here on, so a reload is applied as a whole or not at all.
  certificates_.Use(std::move(prepared.certificates));
  jwks_.Start(std::move(prepared.issuers));
  runtime_ = std::move(prepared.runtime);
  shared_.routing_log->Configure(runtime_->config().routing_log);
  if (const auto& access_log = runtime_->config().telemetry.access_log)
    shared_.access_log.Configure(access_log->file);
  for (const ModelRuntime& model : runtime_->models()) {
    if (model.config->lora) continue;  // its base's
    model.waits->Configure(model.queue.value_or(config::Queue()));
  }
  Publish();
  events_.Changed("models", admin::FeedEvent::Audience::kAll, Permission::kSeeModels);
  events_.Changed("tenants", admin::FeedEvent::Audience::kAll, Permission::kSeeTenants);
  PublishIssuers();
  sign_in_.Reset();
  outbound_.OnLimits();
  if (!threads_.empty()) {
    StartWatching();
    discovery_.Configure(runtime_->configured());
    if (control_plane_) control_plane_->Configure(*runtime_);
    control_.tasks.Spawn(RestoreAdded(BudgetsBeside(shared_.limits, budgets)));
    PublishTenants();  // they may have changed while the record was written
  }
  KeepLastKnownGood(config_path_, shared_.state_dir);
  return absl::OkStatus();
}

std::vector<config::Tenant> Process::TenantsInForce(const Config& configured) const {
  std::vector<config::Tenant> tenants = WithProjects(configured.tenants, projects_->List());
  AddGrants(tenants, grants_->List(), net::Now());
  return tenants;
}

Runtime::InForce Process::InForce(const Config& configured) const {
  Runtime::InForce in_force{.tenants = TenantsInForce(configured)};
  if (!run_time_models_) return in_force;
  in_force.adapters = run_time_models_->adapters_in_force();
  in_force.shares = run_time_models_->shares(configured);
  return in_force;
}

std::vector<control::ReservedDevices> Process::ReservedNow() const {
  std::vector<control::ReservedDevices> reserved;
  for (const TenantGrant& grant : grants_->List()) {
    const std::optional<DeviceAllowance>& devices = grant.gives.devices;
    if (!devices || !grant.InForce(net::Now())) continue;
    reserved.push_back(
        {.queue = grant.id, .tenant = grant.tenant, .kind = devices->kind, .count = devices->count});
  }
  std::ranges::sort(reserved, {}, &control::ReservedDevices::queue);
  return reserved;
}

void Process::PublishTenants() {
  if (!runtime_) return;  // at the start, they come with the first runtime
  const Config& configured = runtime_->configured();
  auto runtime = runtime_->WithInForce(InForce(configured), Added(configured), shared_.learned());
  const absl::Status used = runtime.ok() ? UseTenants(*runtime) : runtime.status();
  tenants_refused_ = !used.ok();
  if (!used.ok()) {
    log::Error("tenants made at run time and grants are not in force as stored; those before stay",
               {{"why", conf::Std(used.message())}});
  }
}

absl::Status Process::UseTenants(const std::shared_ptr<const Runtime>& runtime) {
  std::vector<std::string> tenants;
  for (const TenantRuntime& tenant : runtime->tenants()) tenants.push_back(tenant.path);
  if (absl::Status made = shared_.content_keys->Ensure(tenants); !made.ok()) return made;
  const std::set<std::string> budgets = BudgetIds(shared_.limits);
  if (absl::Status limits = shared_.limits.Update(runtime->LimitNodes()); !limits.ok()) return limits;
  runtime_ = runtime;
  Publish();
  outbound_.OnLimits();
  if (threads_.empty()) return absl::OkStatus();
  StartWatching();
  if (control_plane_) control_plane_->Configure(*runtime_);
  control_.tasks.Spawn(RestoreAdded(BudgetsBeside(shared_.limits, budgets)));
  return absl::OkStatus();
}

void Process::Publish() {
  principals_ = BuildPrincipals(*runtime_, shared_.keys->Table(), shared_.limits, net::Now(),
                                shared_.content_keys.get());
  ForEachShard(
      [runtime = runtime_, principals = principals_, keys = jwks_.published()](Shard& shard, Server&) {
        shard.Swap(runtime, principals);
        for (size_t i = 0; i < keys.size(); ++i) shard.SetJwtKeys(i, keys[i]);
      });
}

// For the admin listener; the shards have verifiers of their own.
void Process::PublishIssuers() {
  admin_tokens_.reset();
  if (!runtime_->issuers()) return;
  admin_tokens_ = std::make_unique<plugins::auth::JwtAuthenticator>(runtime_->issuers(), kAdminTokenBytes);
  for (size_t i = 0; const plugins::auth::PublishedKeys& keys : jwks_.published())
    admin_tokens_->SetKeys(i++, keys);
}

void Process::PublishKeys() {
  if (!runtime_) return;  // at the start, they are published with the first runtime
  Publish();
  PublishFollowed();
  outbound_.OnLimits();
  events_.Changed("keys", admin::FeedEvent::Audience::kAll, Permission::kSeeOwnKeys);
}

void Process::PublishFollowed() {
  const auto left = std::make_shared<std::atomic<size_t>>(shards_.size());
  ForEachShard([this, left, number = principals_->keys->version()](Shard&, Server&) {
    if (left->fetch_sub(1) == 1) control_.Post([this, number] { followed_.Set(number); });
  });
}

// Budgets that a reload adds count from then on; what was spent before comes from the ledger.
net::Task<void> Process::RestoreAdded(std::vector<router::limits::LimitRef> budgets, bool all) {
  net::Sleep pause(control_.watchdog);
  while (!budgets.empty() && !stopping_) {
    const absl::Status restored = co_await net::OffLoop(
        control_, [this, &budgets, dir = LedgerDir(runtime_->config()), keys = principals_->keys] {
          return RestoreBudgets(budgets, *shared_.ledger, dir, *keys, net::Now());
        });
    if (restored.ok()) break;
    log::Error("added budgets do not include earlier spending yet; retrying",
               {{"why", conf::Std(restored.message())}});
    co_await pause.For(kRestoreRetry);
  }
  if (all) budgets_known_ = true;
}

void Process::ServeOwn(net::Fd connection, OnBehalf caller) {
  if (servers_.empty()) return;
  const size_t i = next_own_++ % servers_.size();
  // What is posted must be copyable.
  auto request = std::make_shared<std::pair<net::Fd, OnBehalf>>(std::move(connection), std::move(caller));
  shards_[i]->loop.Post([server = servers_[i].get(), request] {
    server->ServeOwn(std::move(request->first), std::move(request->second));
  });
}

void Process::ForEachShard(const std::function<void(Shard&, Server&)>& fn) {
  // Also before the threads run: changes between a shard's making and its first turn wait for that turn.
  for (size_t i = 0; i < servers_.size(); ++i) {
    shards_[i]->loop.Post(
        [fn, shard = shards_[i].get(), server = servers_[i].get()] { fn(*shard, *server); });
  }
}

net::Task<absl::Status> Process::Replace(Config config, std::string_view actor) {
  absl::StatusOr<Prepared> prepared = Prepare(std::move(config));
  if (!prepared.ok()) co_return prepared.status();
  const absl::Status recorded = co_await net::OffLoop(
      control_,
      [this, event = RecordOf(*prepared, "reloaded", actor)] { return shared_.ledger->Append(event); });
  if (!recorded.ok()) co_return recorded;
  absl::Status applied = Apply(*std::move(prepared));
  if (applied.ok()) log::Info("configuration applied", {{"sha256", runtime_->hash()}});
  co_return applied;
}

// Refuses new work while there is still room to record how the running work ends.
void Process::CheckDisk() {
  const bool room = disk_room_->Check(runtime_->config().ledger.min_free_bytes);
  shared_.disk_low = !room || !budgets_known_;
}

net::Task<void> Process::WatchDisk() {
  while (!stopping_) {
    CheckDisk();
    if (net::Now() >= attempts_recorded_ + kRecordAttempts) RecordAttempts();
    co_await disk_poll_.For(kDiskPoll);
  }
}

// None while the disk is low; they are added up until it has room.
void Process::RecordAttempts() {
  if (shared_.disk_low) return;
  attempts_recorded_ = net::Now();
  if (std::optional<ledger::Event> event = shared_.failed_attempts.Take(attempts_recorded_))
    deferred_events_->Add(*std::move(event));
}

void Process::Run() {
  for (size_t i = 0; i < shards_.size(); ++i) {
    threads_.emplace_back([i, shard = shards_[i].get()] {
      NameThread(fmt::format("shard-{}", i).c_str());
      shard->loop.Run();
    });
  }
  StartWatching();
  discovery_.Configure(runtime_->configured());
  control_plane_->Start();
  run_time_models_->Start();
  if (usage_sharing_) usage_sharing_->Start();
  batches_->Begin();
  recent_traffic_.Begin(net::Now());
  outbound_.Begin();
  PublishFollowed();
  certificates_.Start();
  control_.tasks.Spawn(WatchDisk());
  control_.Run();
  end_deadline_.WaitsFor("the ledger, its index and the store");
  indexer_.reset();
  if (const absl::Status stopped = shared_.ledger->Stop(); !stopped.ok()) {
    log::Error("ledger did not stop cleanly", {{"why", conf::Std(stopped.message())}});
  }
}

void Process::Stop(conf::Duration delay) {
  if (shared_.stopping.exchange(true)) {
    stop_delay_.Cancel();
    return;
  }
  const Config& config = runtime_->config();
  const bool ends_replicas = config.scaling && config.scaling->on_exit == config::OnExit::kStop;
  end_deadline_.Begin(delay + config.server.shutdown_grace + kRecordsPatience +
                      (ends_replicas ? control::ScalingLoop::kClosePatience : conf::Duration::zero()));
  reloads_.Stop();
  control_.tasks.Spawn(Shutdown(delay));
}

net::Task<void> Process::Shutdown(conf::Duration delay) {
  const conf::Duration grace = runtime_->config().server.shutdown_grace;
  log::Info("stopping", {{"delay", conf::InWords(delay)}, {"grace", conf::InWords(grace)}});
  net::Sleep tick(control_.watchdog);
  if (delay > conf::Duration::zero()) co_await stop_delay_.For(delay);
  stopping_ = true;
  shared_.draining = true;
  batches_->Drain();
  control_.Post(on_drain_);
  ForEachShard([](Shard&, Server& server) { server.Drain(); });
  const conf::TimePoint until = net::Now() + grace;
  while ((connections_.open() > 0 || batches_->leaving()) && net::Now() < until)
    co_await tick.For(std::chrono::milliseconds(20));
  ForEachShard([](Shard& shard, Server& server) {
    server.CloseAll();
    shard.shadow_copies.Abort();
    shard.loop.Stop();
  });
  if (shared_feedback_) shared_feedback_->GiveUp();  // the shards wait for their answers
  end_deadline_.WaitsFor("the shards");
  // From here on nothing is admitted or recorded.
  co_await net::OffLoop(control_, [this] {
    for (std::thread& thread : threads_) thread.join();
    return true;
  });
  batches_->Stop();
  end_deadline_.WaitsFor("feedback");
  co_await net::OffLoop(control_, [this] {
    feedback_->Stop();
    return true;
  });
  if (shared_feedback_) shared_feedback_->Stop();
  end_deadline_.WaitsFor("a reload");
  while (reloads_.under_way() > 0) co_await tick.For(std::chrono::milliseconds(20));
  // The next leader carries out the calls of other gateways, and this one no more.
  if (leader_calls_) leader_calls_->Stop();
  end_deadline_.WaitsFor("replicas and steps of jobs");
  const std::optional<config::Scaling>& scaling = runtime_->config().scaling;
  co_await control_plane_->Close(!scaling || scaling->on_exit == config::OnExit::kKeep);
  run_time_models_->StopLoads();
  discovery_.Stop();
  probes_.Stop();
  replica_watch_.Stop();
  scrapes_.Stop();
  kv_events_.Stop();
  jwks_.Stop();
  certificates_.Stop();
  disk_poll_.Cancel();
  RecordAttempts();
  deferred_events_->Close();
  end_deadline_.WaitsFor("the last records");
  stored_events_->Stop();
  checkpoint_copy_->Stop();
  (void)co_await net::OffLoop(control_, [this] {
    ledger_check_->Stop();
    return true;
  });
  // The sinks can then have every record.
  (co_await net::OffLoop(control_, [this] { return shared_.ledger->Flush(); })).IgnoreError();
  if (usage_sharing_) co_await usage_sharing_->Stop();
  co_await outbound_.Stop();
  shared_.keys->Stop();
  key_events_->Stop();
  sessions_->Stop();
  projects_->Stop();
  grants_->Stop();
  budget_watch_->Stop();
  notices_.Stop();
  sign_in_.Stop();
  model_orders_->Stop();
  run_time_models_->Stop();
  events_.Close();
  admin_->Close();
  if (console_) console_->Close();
  control_.Stop();
}

}  // namespace gateway
