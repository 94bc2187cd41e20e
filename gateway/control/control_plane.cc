#include "gateway/control/control_plane.h"

#include <openssl/rand.h>

#include <algorithm>
#include <array>
#include <utility>

#include "conf/hex.h"
#include "conf/text.h"
#include "gateway/control/scaling/signals.h"
#include "gateway/log.h"
#include "gateway/net/clock.h"

namespace gateway::control {
namespace {

constexpr conf::Duration kTidy = std::chrono::seconds(1);
// After routes were published: by the end of this time every shard has them.
constexpr conf::Duration kShardsRoute = std::chrono::milliseconds(500);

std::string NewStart() {
  std::array<unsigned char, 8> bits{};
  RAND_bytes(bits.data(), bits.size());
  return conf::Hex(bits);
}

std::string_view LauncherName(const Runtime& runtime) {
  return runtime.config().scaling ? Name(runtime.config().scaling->launcher) : std::string_view();
}

}  // namespace

ControlPlane::ControlPlane(net::Loop& loop, Options options, Environment env)
    : loop_(loop),
      options_(std::move(options)),
      env_(std::move(env)),
      began_(net::Now()),
      start_(NewStart()),
      tidy_(loop.watchdog) {
  leadership_ = std::make_unique<Leadership>(
      loop, *env_.loop.store,
      Leadership::Options{.holder = process_name(), .about = options_.name, .alone = !options_.shared});
  if (options_.scales) {
    driving_ =
        std::make_unique<Driving>(loop, *leadership_, [this](uint64_t epoch) { return MakeLoop(epoch); });
    driving_->on_change = [this] { OnTerm(); };
  }
  if (!options_.shared) return;
  if (options_.scales) {
    followed_ = std::make_unique<FollowedReplicas>(
        loop, *env_.loop.store,
        FollowedReplicas::Environment{
            .policy = [this](const std::string& model) -> const config::ModelPolicy* {
              const std::shared_ptr<const Runtime> runtime = env_.loop.runtime();
              if (!runtime->config().scaling) return nullptr;
              const std::vector<config::ModelPolicy>& models = runtime->config().scaling->models;
              const auto policy = std::ranges::find_if(
                  models, [&](const config::ModelPolicy& of) { return of.model() == model; });
              return policy == models.end() ? nullptr : &*policy;
            },
            .role =
                [this](const config::ModelPolicy& policy, std::string_view version) {
                  const Rollouts* const rollouts = env_.loop.rollouts;
                  return RoleOf(policy, rollouts == nullptr ? nullptr : rollouts->Find(policy.model()),
                                version);
                },
            .changed =
                [this] {
                  if (!loop_publishes_) PublishFollowed();
                },
            .workloads_changed =
                [this] {
                  if (follows()) env_.workloads_changed();
                },
            .load = [this](const std::string& identity) { return env_.loop.replicas->Get(identity); }});
    served_elsewhere_ = std::make_unique<ServedElsewhere>(
        loop, *env_.loop.store,
        ServedElsewhere::Options{
            .name = options_.name,
            .start = start_,
            .knows = [this](const std::string& replica) { return followed_->Knows(replica); }},
        env_.loop.meter(), [this] { return this->loop() != nullptr; });
  }
  Gateways::Environment of_gateways;
  of_gateways.name = options_.name;
  of_gateways.self = [this] { return Self(); };
  of_gateways.on_waiting = [this] {
    if (ScalingLoop* const drives = this->loop()) drives->OnWaiting();
  };
  of_gateways.changed = env_.changed;
  gateways_ = std::make_unique<Gateways>(loop, *env_.loop.store, std::move(of_gateways));
}

absl::Status ControlPlane::Open() {
  const auto await = [this](net::Task<void> task) {
    net::Await(loop_, [](net::Task<void> of) -> net::Task<bool> {
      co_await of;
      co_return true;
    }(std::move(task)));
  };
  if (gateways_) {
    if (absl::Status free = net::Await(loop_, gateways_->CheckName()); !free.ok()) return free;
  }
  if (options_.scales) await(leadership_->Start());
  if (followed_) {
    if (absl::Status started = net::Await(loop_, followed_->Start()); !started.ok()) return started;
  }
  if (served_elsewhere_) {
    if (absl::Status started = net::Await(loop_, served_elsewhere_->Start()); !started.ok()) return started;
  }
  if (gateways_) {
    if (absl::Status started = net::Await(loop_, gateways_->Start()); !started.ok()) return started;
  }
  return driving_ ? driving_->Open() : absl::OkStatus();
}

void ControlPlane::Start() {
  if (driving_) driving_->Start();
  if (!gateways_) return;
  tidying_ = true;
  loop_.tasks.Spawn(Tidy());
}

absl::StatusOr<std::unique_ptr<ScalingLoop>> ControlPlane::MakeLoop(uint64_t epoch) {
  absl::StatusOr<std::unique_ptr<plugins::launchers::Launcher>> launcher = env_.open_launcher();
  if (!launcher.ok()) return launcher.status();
  LoopEnvironment env = env_.loop;
  env.epoch = epoch;
  env.shared = options_.shared;
  env.leads = [this, epoch] { return leadership_->leads() && leadership_->epoch() == epoch; };
  env.confirm = [this, epoch]() -> net::Task<absl::Status> {
    absl::Status confirmed = co_await leadership_->Confirm();
    if (confirmed.ok() && leadership_->epoch() != epoch)
      confirmed = absl::UnavailableError("the term in which this was begun has ended");
    co_return confirmed;
  };
  env.deposed = [this, epoch] { leadership_->Deposed(epoch); };
  if (options_.shared) {
    env.served = [served = served_](const std::string& replica) { return served.contains(replica); };
    served_elsewhere_->BeginTerm();
    env.served_elsewhere = [this] { return served_elsewhere_->TakeNew(); };
    env.demand_elsewhere = [this] { return gateways_->Demand(net::Now()); };
    env.tries_elsewhere = [this] { return gateways_->tries(); };
    env.left_elsewhere = [this](const std::string& replica, uint64_t change) {
      return gateways_->LeftAt(replica, change, net::Now());
    };
    env.publish = [this, epoch](const Launched& launched) {
      if (leadership_->epoch() != epoch) return;
      loop_publishes_ = true;
      env_.loop.publish(launched);
    };
  }
  const std::shared_ptr<const Runtime> runtime = env_.loop.runtime();
  return std::make_unique<ScalingLoop>(loop_, *std::move(launcher), *runtime->config().scaling,
                                       std::move(env));
}

void ControlPlane::OnTerm() {
  loop_publishes_ = false;
  if (loop() == nullptr && followed_) PublishFollowed();
  if (gateways_) gateways_->TellSoon();
  env_.changed();
}

void ControlPlane::PublishFollowed() {
  if (leadership_->leads() && served_.empty()) return;  // the loop asks them first
  const Launched serving = followed_->Serving();
  served_.clear();
  for (const auto& [model, endpoints] : serving) {
    for (const std::shared_ptr<const config::Endpoint>& endpoint : endpoints) served_.insert(endpoint->name);
  }
  published_at_ = net::Now();
  env_.loop.publish(serving);
  if (gateways_) gateways_->TellSoon(kShardsRoute);
}

uint64_t ControlPlane::Routed(conf::TimePoint now) const {
  const uint64_t number = followed_->number();
  if (number < routed_) {  // the store was restored from an older copy
    routed_ = number;
    pending_.reset();
  }
  if (!pending_ && number > routed_) pending_ = Pending{number, published_at_};
  if (pending_ && now - pending_->at >= kShardsRoute) {
    routed_ = pending_->number;
    pending_.reset();
    if (number > routed_) pending_ = Pending{number, published_at_};
  }
  return routed_;
}

bool ControlPlane::Lives(std::string_view gateway) const {
  return gateways_ && gateways_->Lives(gateway, net::Now());
}

GatewayRecord ControlPlane::Self() const {
  const conf::TimePoint now = net::Now();
  GatewayRecord self{.name = options_.name,
                     .id = options_.id,
                     .start = start_,
                     .version = options_.version,
                     .address = options_.address,
                     .public_key = options_.public_key,
                     .since = began_};
  if (options_.scales) self.epoch = leadership_->epoch();
  if (gateways_) self.adapters = env_.adapters();
  if (!followed_) {
    if (gateways_) self.followed = gateways_->number();
    // Where no gateway leads, each loads what its own requests wait for.
    for (auto& [id, use] : self.adapters) use.waits = false;
    return self;
  }
  self.followed = Routed(now);
  self.leaving = followed_->Leaving();
  // The leader's own demand needs no report.
  const std::vector<const ShardMetrics*> shards = env_.loop.shards();
  const std::shared_ptr<const Runtime> runtime = env_.loop.runtime();
  self.demand = DemandHere(shards, *runtime, now);
  if (env_.loop.rollouts != nullptr) self.tries = TriesHere(shards, *runtime, *env_.loop.rollouts);
  return self;
}

void ControlPlane::Configure(const Runtime& runtime) {
  if (loop() != nullptr) loop()->Configure(runtime);
  if (followed_ && !loop_publishes_) PublishFollowed();
}

void ControlPlane::OnWaiting() {
  if (loop() != nullptr) return loop()->OnWaiting();
  const std::shared_ptr<const Runtime> runtime = env_.loop.runtime();
  if (!gateways_ || !runtime->config().scaling) return;
  const auto waits = [&](const config::ModelPolicy& policy) {
    const std::optional<ModelId> id = runtime->routes().Find(policy.model());
    return id && runtime->model(*id).waits->urgent() > 0;
  };
  const auto waits_for_adapter = [](const auto& use) { return use.second.waits; };
  if (std::ranges::any_of(runtime->config().scaling->models, waits) ||
      std::ranges::any_of(env_.adapters(), waits_for_adapter))
    gateways_->TellSoon();
}

// Once a second: a follower estimates capacities, and the leader removes old records.
net::Task<void> ControlPlane::Tidy() {
  while (!closed_) {
    const std::shared_ptr<const Runtime> runtime = env_.loop.runtime();
    if (followed_ && loop() == nullptr && runtime->config().scaling) {
      followed_->EstimateCapacities(runtime->config().scaling->models, *env_.loop.scaling_hints, net::Now());
    }
    if (loop() != nullptr && leadership_->leads()) {
      co_await gateways_->RemoveGone(leadership_->epoch(), net::Now());
      std::set<std::string> known;
      for (const GatewayStatus& gateway : gateways_->List(net::Now())) known.insert(gateway.record.name);
      co_await served_elsewhere_->RemoveGone(leadership_->epoch(), std::move(known));
    }
    if (!options_.scales) co_await gateways_->RemoveGone(0, net::Now());
    co_await tidy_.For(kTidy);
  }
  tidying_ = false;
}

net::Task<void> ControlPlane::Close(bool keep) {
  closed_ = true;
  tidy_.Cancel();
  const bool others = gateways_ && gateways_->OthersLive(net::Now());
  if (driving_) co_await driving_->Close(keep || others);
  net::Sleep tick(loop_.watchdog);
  while (tidying_) co_await tick.For(net::Watchdog::kTick);
  if (gateways_) co_await gateways_->Leave();
  Abandon();
}

void ControlPlane::Abandon() {
  closed_ = true;
  tidy_.Cancel();
  leadership_->Stop();
  if (followed_) followed_->Stop();
  if (served_elsewhere_) served_elsewhere_->Stop();
  if (gateways_) gateways_->Stop();
}

Status ControlPlane::status(conf::TimePoint now) const {
  if (driving_ && driving_->loop() != nullptr) return std::as_const(*driving_->loop()).status(now);
  Status out;
  if (driving_) out.launcher = LauncherName(*env_.loop.runtime());
  return out;
}

std::vector<GatewayStatus> ControlPlane::gateways(conf::TimePoint now) const {
  if (gateways_) return gateways_->List(now);
  return {{.record = Self(), .self = true, .seen = now}};
}

}  // namespace gateway::control
