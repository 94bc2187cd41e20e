#include "gateway/control/scaling_loop.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "conf/text.h"
#include "gateway/config/shares.h"
#include "gateway/config/sources.h"
#include "gateway/config/state_files.h"
#include "gateway/control/starts/start_places.h"
#include "gateway/control/weights/weights_step.h"
#include "gateway/control/workloads/legacy_files.h"
#include "gateway/log.h"
#include "gateway/net/clock.h"
#include "gateway/net/off_loop.h"
#include "gateway/store/import.h"

namespace gateway::control {
namespace {

constexpr conf::Duration kBeginRetry = std::chrono::seconds(1);
constexpr conf::Duration kCloseTick = std::chrono::milliseconds(20);

// Null: energy has no price.
EnergyTariff TariffOf(const config::Energy& energy) {
  if (energy.usd_per_kwh.values.empty() && energy.grams_co2_per_kwh.values.empty()) return nullptr;
  return [energy](conf::TimePoint at) {
    return EnergyRate{energy.usd_per_kwh.At(at), energy.grams_co2_per_kwh.At(at)};
  };
}

}  // namespace

ScalingLoop::ScalingLoop(net::Loop& loop, std::unique_ptr<plugins::launchers::Launcher> launcher,
                         const config::Scaling& scaling, LoopEnvironment env)
    : Alarm(loop.watchdog),
      loop_(loop),
      launcher_(std::move(launcher)),
      env_(std::move(env)),
      device_warning_(config::WhyUnclaimed(scaling)),
      planning_(scaling, net::Now()),
      store_(*env_.store, planning_.cluster(), {.epoch = env_.epoch, .deposed = env_.deposed}),
      context_(MakeContext()),
      workloads_(context_),
      runner_(context_, workloads_),
      reconciler_(context_, workloads_),
      replicas_(context_, workloads_, ReplicasEnvironment()),
      jobs_(context_, workloads_, runner_, JobsEnvironment()),
      orphans_(context_, workloads_),
      node_weights_(context_, *env_.store, workloads_, [this] { OnNewCluster(); }),
      start_reports_(loop, context_, workloads_,
                     {.policy = [this](const std::string& model) { return scaler_.PolicyOf(model); },
                      .listed = [this](const std::string& node, const std::vector<std::string>& holds,
                                       conf::TimePoint at) { node_weights_.Listed(node, holds, at); }}),
      readiness_(
          loop, context_, workloads_, [this](const std::string& model) { return scaler_.PolicyOf(model); },
          [this](Workload& replica, std::string why) {
            replicas_.Fail(replica, std::move(why), Blame::kWorkload);
          },
          [this](std::string id) { return start_reports_.ReadNow(std::move(id)); }),
      scaled_(loop,
              {.record = env_.record, .pods = [this](const std::string& model) { return PodsOf(model); }}),
      sleepers_(loop, context_, workloads_, replicas_, SleepersEnvironment()),
      scaler_(workloads_, replicas_, sleepers_, readiness_.cold_starts(), readiness_.learned_starts(),
              {.runtime = env_.runtime,
               .shards = env_.shards,
               .scaling_hints = env_.scaling_hints,
               .held = env_.held,
               .demand_elsewhere = env_.demand_elsewhere,
               .places =
                   [this](const config::ModelPolicy& policy) {
                     return StartPlacesOf(context_, policy, node_weights_);
                   },
               .scaled = &scaled_}),
      rollouts_(context_, workloads_, replicas_, RolloutEnvironment()),
      prefetches_(context_, PrefetchesEnvironment()),
      memories_(context_, *env_.store, MemoriesEnvironment()),
      node_trust_(context_,
                  [this](std::map<std::string, NodeWatch::Runs>& runs) {
                    replicas_.CountRuns(runs);
                    for (const std::string& node : workloads_.LateNodes()) ++runs[node].late;
                  }),
      telemetry_(loop, context_, scaling,
                 [this](std::span<const DrawnEnergy> drawn) { metering_.Draw(drawn); }),
      device_faults_(
          context_, [this](const plugins::launchers::DeviceFault& fault) { workloads_.OnDeviceLost(fault); },
          [this] { return telemetry_.faults(); },
          [this](const plugins::launchers::DeviceFault& fault) {
            return workloads_.HoldersOf(fault.node, fault.device);
          }),
      node_power_(context_),
      power_caps_(context_, scaling.power.cap_low_bands, PowerCapsEnvironment()),
      cordons_(loop, *env_.store, context_),
      node_discovery_(
          context_, workloads_, [this] { OnNewCluster(); },
          [this](scheduler::Cluster& cluster) { node_weights_.Label(cluster); }),
      node_drain_(context_, workloads_, replicas_,
                  {.order = [this](const std::string& node) { return WhyDrained(node); },
                   .wanted = [this](const std::string& model) { return scaler_.WantedOf(model); }}),
      replica_moves_(context_, workloads_, replicas_,
                     {.wanted = [this](const std::string& model) { return scaler_.WantedOf(model); }}),
      metering_(
          loop, env_.meter(), [this] { return workloads_.Held(began_); },
          [this](std::span<const ledger::DeviceRecord> records) { env_.charge(records); },
          env_.shared ? std::make_unique<MeteredMarks>(*env_.store, env_.epoch, env_.deposed) : nullptr,
          env_.served_elsewhere, TariffOf(scaling.energy)),
      pause_(loop.watchdog),
      began_(net::Now()) {
  workloads_.Use(Kind::kReplica, replicas_);
  workloads_.Use(Kind::kJob, jobs_);
  workloads_.Use(Kind::kOrphan, orphans_);
  workloads_.move_replica = [this](Workload& replica, const scheduler::Action& move) {
    return replica_moves_.Begin(replica, move);
  };
  workloads_.untrusted = [this](const std::string& node) { return node_trust_.doubted(node); };
  runner_.may_start_on = [this](std::string node) { return node_trust_.MayStartOn(std::move(node)); };
  runner_.nothing_starts = [this] { return WhyNothingStarts(); };
  runner_.metered = [this](const Workload& workload) {
    const bool job = workload.kind == Kind::kJob;
    return metering_.UpToNow({.model = workload.model, .job = job ? workload.id : std::string()});
  };
  reconciler_.on_runs = [this](const Reconciler::Runs& runs) { prefetches_.Update(runs); };
  reconciler_.on_unknown = [this](const plugins::launchers::RunStatus& run) { orphans_.Found(run, !begun_); };
  launcher_->on_change = [this](const std::string&) {
    reconciler_.ReconcileSoon();
    Wake();
  };
}

ScalingLoop::~ScalingLoop() = default;

Context ScalingLoop::MakeContext() {
  return {.now = [] { return net::Now(); },
          .wake = [this] { Wake(); },
          .spawn = [this](net::Task<void> task) { loop_.tasks.Spawn(std::move(task)); },
          .record = env_.record,
          .launcher = launcher_.get(),
          .planning = &planning_,
          .store = &store_,
          .users = &env_.users,
          .epoch = env_.epoch,
          .leads = env_.leads,
          .confirm = env_.confirm,
          .shared = env_.shared,
          .served = env_.served,
          .keys = &keys_};
}

Replicas::Environment ScalingLoop::ReplicasEnvironment() {
  return {.policy = [this](const std::string& model) { return scaler_.PolicyOf(model); },
          .may_start = [this](const std::string& model) { return scaler_.MayStart(model, net::Now()); },
          .on_failure =
              [this](const std::string& model, std::string why, conf::Duration served) {
                scaler_.OnFailure(model, std::move(why), served, net::Now());
              },
          .role = [this](const config::ModelPolicy& policy,
                         std::string_view version) { return RoleOf(policy, RolloutOf(policy), version); },
          .version_in_force =
              [this](const config::ModelPolicy& policy) { return VersionInForce(policy, RolloutOf(policy)); },
          .on_new_failure = [this](const std::string& model,
                                   std::string why) { rollouts_.OnFailure(model, std::move(why)); },
          .load = [this](const std::string& identity) { return env_.replicas->Get(identity); },
          .doubted = [this](const std::string& node) { return node_trust_.doubted(node); },
          .weights_step = [this](const config::ModelPolicy& policy, const std::string& node,
                                 const std::string& kind) { return WeightsStepFor(policy, node, kind); },
          .publish = env_.publish,
          .left_elsewhere = [this](const Workload& replica) -> std::optional<uint32_t> {
            if (!env_.shared) return 0;
            const std::optional<uint64_t> change = store_.VersionOf(replica);
            return change ? env_.left_elsewhere(replica.id, *change) : std::nullopt;
          }};
}

const Rollout* ScalingLoop::RolloutOf(const config::ModelPolicy& policy) const {
  return env_.rollouts == nullptr ? nullptr : env_.rollouts->Find(policy.model());
}

RolloutDriver::Environment ScalingLoop::RolloutEnvironment() {
  RolloutDriver::Environment env{
      .runtime = env_.runtime,
      .shards = env_.shards,
      .wanted = [this](const std::string& model) { return scaler_.WantedOf(model); },
      .rollouts = env_.rollouts,
      .tries_elsewhere = env_.tries_elsewhere};
  if (env_.ratings) {
    env.ratings = [this](std::string model, std::string name, conf::TimePoint since) {
      return net::OffLoop(loop_, [read = env_.ratings, model = std::move(model), name = std::move(name),
                                  since] { return read(model, name, since); });
    };
  }
  return env;
}

Jobs::Environment ScalingLoop::JobsEnvironment() {
  Jobs::Environment env;
  env.off_loop = [this](std::function<absl::Status()> fn) { return net::OffLoop(loop_, std::move(fn)); };
  env.tenant_path = [this](const std::string& name) -> std::optional<std::string> {
    const TenantRuntime* const tenant = env_.runtime()->FindTenant(name);
    return tenant == nullptr ? std::nullopt : std::optional<std::string>(tenant->path);
  };
  env.may_name_secret = [this](const std::string& path, std::string_view reference) {
    return config::MayNameSecret(env_.runtime()->config().tenants, path, reference);
  };
  env.devices_used_up = env_.devices_used_up;
  env.no_room = env_.no_room;
  env.nothing_starts = [this] {
    std::string why = WhyNothingStarts();
    return why.empty() ? reconciler_.trouble() : why;
  };
  env.doubts = [this] {
    std::vector<std::string> sentences = node_trust_.InWords();
    std::ranges::move(cordons_.InWords(), std::back_inserter(sentences));
    return sentences;
  };
  env.sources = SystemSources();
  env.pods = [this]() -> std::optional<config::Pods> {
    const auto runtime = env_.runtime();
    const std::optional<config::Scaling>& scaling = runtime->config().scaling;
    return scaling ? scaling->kubernetes : std::nullopt;
  };
  env.why_not_shared = [this](const scheduler::DeviceAsk& ask) {
    const auto runtime = env_.runtime();
    const std::optional<config::Scaling>& scaling = runtime->config().scaling;
    return scaling ? config::WhyNotShared(ask, *scaling) : std::string();
  };
  if (launcher_->shared() != nullptr) env.log_owner = plugins::launchers::LogOwner::kAnyone;
  env.residency = [this](const std::string& tenant) {
    return config::ResidencyOf(env_.runtime()->config().tenants, tenant);
  };
  env.data_set = [this](const std::string& name) -> std::optional<config::DataSet> {
    const auto runtime = env_.runtime();
    const std::optional<config::Scaling>& scaling = runtime->config().scaling;
    if (!scaling) return std::nullopt;
    const auto found = std::ranges::find(scaling->data_sets, name, &config::DataSet::name);
    return found == scaling->data_sets.end() ? std::nullopt : std::optional<config::DataSet>(*found);
  };
  env.data_sets = [this] {
    std::vector<std::string> names;
    const auto runtime = env_.runtime();
    if (const std::optional<config::Scaling>& scaling = runtime->config().scaling) {
      for (const config::DataSet& data : scaling->data_sets) names.push_back(data.name);
    }
    return names;
  };
  env.data_step = [this](const std::vector<config::DataSet>& data,
                         const std::string& node) -> std::optional<plugins::launchers::WeightsStep> {
    const auto runtime = env_.runtime();
    const std::optional<config::Scaling>& scaling = runtime->config().scaling;
    return scaling ? DataStepOf(*scaling, data, NeighboursOf(*scaling, node)) : std::nullopt;
  };
  env.run_user = [this] {
    const auto runtime = env_.runtime();
    const std::optional<config::Scaling>& scaling = runtime->config().scaling;
    return scaling && scaling->slurm ? scaling->slurm->user : std::string();
  };
  env.configuration = [this] { return env_.runtime()->hash(); };
  return env;
}

PowerCaps::Environment ScalingLoop::PowerCapsEnvironment() {
  PowerCaps::Environment env;
  env.off_loop = [this](std::function<absl::Status()> fn) { return net::OffLoop(loop_, std::move(fn)); };
  if (!env_.state_dir.empty()) env.file = PowerCapsPath(env_.state_dir);
  return env;
}

Sleepers::Environment ScalingLoop::SleepersEnvironment() {
  constexpr double kNineOfTen = 0.9;
  return {
      .policy = [this](const std::string& model) { return scaler_.PolicyOf(model); },
      .metered =
          [this](const Workload& replica) { return metering_.UpToNow({.model = replica.model, .job = {}}); },
      .waiting = [this](const std::string& model) { return scaler_.WaitingFor(model); },
      .claim = [this](const std::string& model) { return scaler_.ClaimOf(model); },
      .cold_start =
          [this](const std::string& model) { return readiness_.cold_starts().Quantile(model, kNineOfTen); },
      .wake = [this](const std::string& model) { return readiness_.wakes().Quantile(model, kNineOfTen); }};
}

// The stores that a fetch on that node may ask. Use it while `scaling` lives.
NeighbourStores ScalingLoop::NeighboursOf(const config::Scaling& scaling, const std::string& node) const {
  return [this, &scaling, node](std::string_view digest) -> std::vector<std::string> {
    if (!scaling.weights || !scaling.weights->neighbours) return {};
    const config::NeighbourServers& how = *scaling.weights->neighbours;
    std::vector<std::string> nodes =
        NearestHolders(context_.planning->planner().state(), node, node_weights_.Holders(digest));
    return NeighbourUrls(how, nodes, [this](const std::string& of) { return launcher_->NodeAddress(of); });
  };
}

std::optional<plugins::launchers::WeightsStep> ScalingLoop::WeightsStepFor(const config::ModelPolicy& policy,
                                                                           const std::string& node,
                                                                           const std::string& kind) const {
  const std::shared_ptr<const Runtime> runtime = env_.runtime();
  const std::optional<config::Scaling>& scaling = runtime->config().scaling;
  if (!scaling) return std::nullopt;
  return WeightsStepOf(*scaling, policy, kind, NeighboursOf(*scaling, node));
}

Prefetches::Environment ScalingLoop::PrefetchesEnvironment() {
  return {
      .policies = [this] { return scaler_.PoliciesWithPrefetch(); },
      .places =
          [this](const config::ModelPolicy& policy) {
            return StartPlacesOf(context_, policy, node_weights_);
          },
      .step = [this](const config::ModelPolicy& policy,
                     const StartPlace& place) { return WeightsStepFor(policy, place.node, place.kind); },
      .asks_neighbours =
          [this] {
            const std::shared_ptr<const Runtime> runtime = env_.runtime();
            const std::optional<config::Scaling>& scaling = runtime->config().scaling;
            return scaling && scaling->weights && scaling->weights->neighbours;
          },
      .short_of_devices =
          [this](const std::string& model) { return replicas_.Count(model, ReplicaState::kWaiting) > 0; },
      .wanted = [this](const std::string& model) { return scaler_.WantedOf(model); },
      .read = [this](std::string run,
                     std::string log) { return start_reports_.ReadStart(std::move(run), std::move(log)); },
      .listed = [this](const std::string& node, const std::vector<std::string>& holds,
                       conf::TimePoint at) { node_weights_.Listed(node, holds, at); }};
}

ModelMemories::Environment ScalingLoop::MemoriesEnvironment() {
  return {.models = [this] { return scaler_.Models(); },
          .learned =
              [this](const std::string& model) {
                ModelMemory memory{.at = net::Now(), .law = scaler_.LearnedOf(model)};
                memory.peaks = prefetches_.PeaksOf(model);
                readiness_.Remember(model, memory);
                return memory;
              },
          .recall =
              [this](const std::string& model, const ModelMemory& memory) {
                if (memory.law) scaler_.Recall(model, *memory.law, memory.at, net::Now());
                prefetches_.Recall(model, memory.peaks);
                readiness_.Recall(model, memory);
              }};
}

void ScalingLoop::OnNewCluster() {
  node_trust_.OnNewNodes();
  cordons_.UpdatePlanner();
}

std::vector<ScaledModels::Pod> ScalingLoop::PodsOf(const std::string& model) const {
  std::vector<ScaledModels::Pod> out;
  const std::shared_ptr<const Runtime> runtime = env_.runtime();
  const std::optional<ModelId> id = runtime->routes().Find(model);
  if (!id) return out;
  for (const router::Replica& replica : runtime->routes().replicas(*id)) {
    const std::string& pod = runtime->replica(replica.id).config->pod;
    if (pod.empty()) continue;
    const int64_t requests = std::max<int64_t>(runtime->load()[replica.id].load.requests(), 0);
    out.push_back({.name = pod, .requests = static_cast<uint32_t>(std::min<int64_t>(requests, INT32_MAX))});
  }
  return out;
}

void ScalingLoop::Wake() {
  if (begun_ && !closing_) SetAfter(conf::Duration::zero());
}

void ScalingLoop::Start() {
  Configure(*env_.runtime());
  beginning_ = true;
  loop_.tasks.Spawn(Begin());
}

void ScalingLoop::Configure(const Runtime& runtime) {
  scaled_.Configure(runtime.config());
  scaler_.Configure(runtime, net::Now());
  planning_.UpdateReserved(env_.reserved(), net::Now());
}

void ScalingLoop::OnWaiting() {
  urgent_ = true;
  Wake();
}

// A gateway that is to stop its workloads must know them, even if it is stopped while it still learns them.
bool ScalingLoop::GivesUp() const {
  return closing_ && (keep_ || net::Now() >= give_up_at_);
}

net::Task<absl::StatusOr<KnownWorkloads>> ScalingLoop::Load() {
  if (!env_.state_dir.empty()) {
    const absl::Status imported = co_await store::RunImport(
        *env_.store, env_.state_dir,
        {.name = "workloads",
         .files = {kLegacyJobs, kLegacyReplicas},
         .read = [this](const std::string& folder) { return ReadLegacyFiles(folder, planning_.cluster()); }});
    if (!imported.ok()) co_return imported;
  }
  if (const absl::Status cordons = co_await cordons_.Start(); !cordons.ok()) co_return cordons;
  if (const absl::Status weights = co_await node_weights_.Load(); !weights.ok()) co_return weights;
  if (const absl::Status memories = co_await memories_.Load(); !memories.ok()) co_return memories;
  absl::StatusOr<ReplicaKeys> keys = co_await ReplicaKeys::Load(*env_.store);
  if (!keys.ok()) co_return keys.status();
  keys_ = *std::move(keys);
  if (!env_.state_dir.empty()) co_await KeepSecret();
  co_return co_await store_.Load();
}

// Best effort: the copy counts only where the store is lost.
net::Task<void> ScalingLoop::KeepSecret() {
  const absl::Status kept = co_await net::OffLoop(
      loop_, [this, path = ReplicaSecretPath(env_.state_dir)] { return keys_.Keep(path); });
  if (!kept.ok()) {
    log::Warn("a store that is lost cannot be rebuilt without ending replicas",
              {{"why", conf::Std(kept.message())}});
  }
}

net::Task<void> ScalingLoop::Begin() {
  while (!GivesUp()) {
    // Records name nodes, so nodes must be known first.
    const absl::Status nodes = co_await node_discovery_.Begin();
    absl::StatusOr<KnownWorkloads> known = KnownWorkloads();
    absl::StatusOr<Reconciler::Runs> runs = Reconciler::Runs();
    if (nodes.ok()) known = co_await Load();
    if (known.ok()) runs = co_await launcher_->List();
    if (runs.ok() && !nodes.ok()) runs = nodes;
    if (known.ok() && runs.ok()) {
      jobs_.SetLastNumber(known->last_number);
      planning_.UpdateReserved(env_.reserved(), net::Now());
      reconciler_.TakeOver(std::move(known->workloads), *runs);
      reconciler_.SetTrouble({});
      begun_ = true;
      loop_.tasks.Spawn(metering_.Run());
      break;
    }
    if (known.ok()) {
      reconciler_.SetTrouble(std::string(conf::Std(runs.status().message())));
      log::Error("the launcher does not report what runs; nothing is started until it does",
                 {{"launcher", launcher_->name()}, {"why", reconciler_.trouble()}});
    } else {
      reconciler_.SetTrouble(fmt::format("the store cannot be read, so nothing is started: {}",
                                         conf::Std(known.status().message())));
      log::Error("nothing is started until the store can be read",
                 {{"why", conf::Std(known.status().message())}});
    }
    co_await pause_.For(kBeginRetry);
  }
  beginning_ = false;
  Wake();
}

std::optional<NodeDrain::Order> ScalingLoop::WhyDrained(const std::string& node) const {
  if (const Cordon* const order = cordons_.Drains(node))
    return NodeDrain::Order{fmt::format("{} is {}", node, WhyOf(*order)), order->by};
  if (const std::optional<NodeWatch::Leave> leave = node_trust_.LeaveOf(node)) {
    return NodeDrain::Order{.why = fmt::format("{} has to be emptied: {}", node, leave->why),
                            .by = std::string(launcher_->name()),
                            .jobs_may_stay = leave->who == plugins::launchers::Leaving::kReplicas};
  }
  return std::nullopt;
}

void ScalingLoop::OnAlarm() {
  if (!env_.leads()) return SetAfter(Meter::kTick);  // it is closed soon
  const conf::TimePoint now = net::Now();
  LogLauncherTrouble();
  node_discovery_.Tick();
  node_trust_.Tick();
  replicas_.SetAside([this](const std::string& node) { return node_trust_.DoubtOf(node); });
  node_drain_.SetAside();
  replica_moves_.SetAside();
  telemetry_.Tick();
  device_faults_.Tick();
  replicas_.LeaveFaulty(device_faults_.known());
  node_power_.Tick(telemetry_.status().get(), [this] { return workloads_.Held(began_); });
  power_caps_.Tick(telemetry_.status().get());
  if (urgent_ || now >= next_decision_) {
    urgent_ = false;
    next_decision_ = now + Meter::kTick;
    scaler_.Decide(now);
  }
  rollouts_.Tick();
  node_drain_.Tick();
  replica_moves_.Tick();
  replicas_.Tick();
  jobs_.Tick();
  node_weights_.Tick();
  node_trust_.UpdatePlanner();
  cluster_metrics_.Tick(planning_.planner(), now);
  Place();
  replicas_.Publish();
  sleepers_.Tick();
  runner_.TakeSteps();
  start_reports_.Tick();
  readiness_.Tick();
  prefetches_.Tick();
  memories_.Tick();
  reconciler_.Tick();
  SetAfter(Meter::kTick);
}

std::string ScalingLoop::WhyNothingStarts() const {
  std::string why = env_.no_room();
  return why.empty() ? launcher_->trouble() : why;
}

// Only workloads that the planner would consider.
void ScalingLoop::SetUnplaced(const std::string& why) {
  for (Workload& workload : workloads_.all()) {
    if (workload.state == State::kPending && !workload.withheld && !workload.held) workload.unplaced = why;
  }
}

void ScalingLoop::LogLauncherTrouble() {
  std::string why = launcher_->trouble();
  if (why == launcher_trouble_) return;
  launcher_trouble_ = std::move(why);
  if (launcher_trouble_.empty()) {
    log::Info("the launcher starts runs again", {{"launcher", launcher_->name()}});
  } else {
    log::Error("nothing is started", {{"launcher", launcher_->name()}, {"why", launcher_trouble_}});
  }
}

// Plans and applies the plan.
void ScalingLoop::Place() {
  if (const std::string why = WhyNothingStarts(); !why.empty()) {
    nothing_starts_ = true;
    SetUnplaced(fmt::format("nothing starts: {}", why));
    return;
  }
  if (std::exchange(nothing_starts_, false)) SetUnplaced({});
  const conf::TimePoint now = net::Now();
  const std::optional<scheduler::Plan> plan = planning_.Run(now);
  if (!plan) return;
  for (const scheduler::Action& action : plan->actions) {
    CountFirstStart(action, now);
    workloads_.Apply(action);
  }
  workloads_.NoteWaiting(plan->waiting);
  for (const auto& [id, reason] : plan->waiting) {
    Workload* const waits = workloads_.Find(id);
    if (waits == nullptr || waits->kind != Kind::kReplica) continue;
    std::vector<std::string> sentences = planning_.Explain(id, now);
    if (sentences.empty()) sentences.push_back(reason.text);
    std::ranges::move(node_trust_.InWords(), std::back_inserter(sentences));
    waits->unplaced = fmt::format("{}", fmt::join(sentences, " "));
  }
}

// Before the action is applied, which begins an attempt.
void ScalingLoop::CountFirstStart(const scheduler::Action& action, conf::TimePoint now) {
  const Workload* const workload = workloads_.Find(action.job);
  const bool first = action.kind == scheduler::ActionKind::kStart && workload != nullptr &&
                     workload->kind == Kind::kJob && workload->state == State::kPending &&
                     workload->attempt == 0;
  if (!first) return;
  const scheduler::Planner& planner = planning_.planner();
  const scheduler::JobIndex index = planner.jobs().Find(action.job);
  if (index == scheduler::kNone) return;
  const scheduler::JobEntry& entry = planner.jobs()[index];
  cluster_metrics_.OnFirstStart(planner.queues().name(entry.queue), entry.device_milli,
                                now - workload->wanted);
}

size_t ScalingLoop::under_way() const {
  return node_weights_.under_way() + memories_.under_way() + start_reports_.under_way() +
         prefetches_.under_way() + runner_.under_way() + jobs_.under_way() + readiness_.under_way() +
         sleepers_.under_way() + node_trust_.under_way() + device_faults_.under_way() +
         telemetry_.under_way() + power_caps_.under_way() + node_discovery_.under_way() +
         scaled_.under_way() + rollouts_.under_way() + (reconciler_.reconciling() ? 1 : 0) +
         (beginning_ ? 1 : 0);
}

net::Task<void> ScalingLoop::Close(bool keep) {
  closing_ = true;
  keep_ = keep;
  give_up_at_ = net::Now() + kClosePatience;
  runner_.Close(!keep);
  jobs_.Close();
  Clear();
  pause_.Cancel();
  readiness_.Close();
  sleepers_.Close();
  scaled_.Close();
  telemetry_.Close();
  net::Sleep tick(loop_.watchdog);
  while (!begun_ && !GivesUp()) co_await tick.For(kCloseTick);
  pause_.Cancel();
  if (!keep && !begun_) {
    log::Error("replicas may be left running: the launcher did not report in time what runs",
               {{"why", reconciler_.trouble()}});
  }
  // The reconciler finds runs without a record; they are ended, too.
  const auto left = [this] {
    const auto is_job = [](const Workload& workload) { return workload.kind == Kind::kJob; };
    return !reconciler_.reconciled() || !std::ranges::all_of(workloads_.all(), is_job);
  };
  while (!keep && begun_ && left() && !GivesUp()) {
    replicas_.EndAll("the gateway ends");
    runner_.TakeSteps();
    if (!reconciler_.reconciling()) {
      reconciler_.ReconcileSoon();
      reconciler_.Tick();
    }
    co_await tick.For(kCloseTick);
  }
  while (under_way() > 0) co_await tick.For(kCloseTick);
  co_await power_caps_.Restore();
  cordons_.Stop();
  metering_.Close();
  // A gateway that no longer leads leaves the rest to the new leader.
  if (begun_ && env_.leads()) {
    (void)co_await metering_.UpToNow({});
    co_await memories_.Save();
  }
  while (!metering_.ended() || !cordons_.idle()) co_await tick.For(kCloseTick);
  for (const Workload& workload : workloads_.all()) {
    if (workload.kind != Kind::kJob)
      log::Info("left running", {{"workload", workload.id}, {"state", Name(workload.state)}});
  }
  co_await launcher_->Close();
}

Status ScalingLoop::status(conf::TimePoint now) const {
  Status out;
  out.begun = begun_;
  out.launcher = launcher_->name();
  out.trouble = reconciler_.trouble().empty() ? launcher_->trouble() : reconciler_.trouble();
  out.run_warning = env_.users.trouble();
  out.device_warning = device_warning_;
  out.nodes = node_trust_.Rows();
  out.faults = device_faults_.known();
  out.cordons = cordons_.all();
  out.cluster = cluster_metrics_.status();
  out.power_caps = power_caps_.Rows();
  out.power_cap_trouble = power_caps_.trouble();
  out.moves = replica_moves_.counts();
  out.moves.jobs = workloads_.job_moves();
  out.suspicions = node_trust_.suspicions();
  out.launches = runner_.launches();
  out.failures = replicas_.failures();
  out.devices = metering_.totals();
  out.energy = metering_.energy();
  out.telemetry = telemetry_.status();
  out.replicas = replicas_.Rows();
  out.models = scaler_.Rows(now);
  const auto list = [](const ColdStarts& starts, std::vector<ColdStart>& to) {
    for (const ColdStarts::Row& row : starts.rows()) {
      to.push_back({row.model, row.kind, row.starts, starts.Quantile(row.model, row.kind, 0.5),
                    starts.Quantile(row.model, row.kind, 0.9)});
    }
  };
  list(readiness_.cold_starts(), out.cold_starts);
  list(readiness_.wakes(), out.wakes);
  out.start_phases = readiness_.learned_starts().rows();
  out.weights_transferred = readiness_.learned_starts().transferred();
  out.weights_from_neighbours = readiness_.learned_starts().from_neighbours();
  out.prefetches = prefetches_.Rows();
  out.prefetched = prefetches_.done();
  out.failed_prefetches = prefetches_.failed();
  return out;
}

}  // namespace gateway::control
