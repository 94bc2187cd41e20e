#include "gateway/control/loop.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "gateway/config/cut_devices.h"
#include "gateway/control/capacity.h"
#include "gateway/log.h"
#include "gateway/net/clock.h"
#include "gateway/net/off_loop.h"

namespace gateway::control {
namespace {

constexpr conf::Duration kLookEvery = std::chrono::seconds(1);
// After a replica was taken out of the routes: by then every shard has the new ones.
constexpr conf::Duration kShardsKnow = std::chrono::milliseconds(500);
constexpr size_t kMaxSaves = 4096;  // that wait for each other
constexpr double kColdStartQuantile = 0.9;
// What takes less may take a multiple of it by chance, and has not failed then.
constexpr conf::Duration kLeastColdStart = std::chrono::seconds(10);

std::string Headroom(const scheduler::autoscale::Decision& decision) {
  if (decision.headroom < 0.0005) return {};
  return fmt::format(", {:.1f} % more since {:.2f} % of first tokens were late", 100 * decision.headroom,
                     100 * decision.late);
}

}  // namespace

ControlLoop::ControlLoop(net::Loop& loop, std::unique_ptr<plugins::launchers::Launcher> launcher,
                         const config::Scaling& scaling, Surroundings around)
    : Alarm(loop.watchdog),
      loop_(loop),
      launcher_(std::move(launcher)),
      around_(std::move(around)),
      planning_(scaling, net::Now()),
      jobs_(AroundJobs(scaling)),
      metering_(
          loop, around_.meter(), [this] { return Held(); },
          [this](std::span<const ledger::DeviceRecord> records) { around_.charge(records); }),
      saves_(kMaxSaves),
      pause_(loop.watchdog),
      began_(net::Now()) {
  launcher_->on_change = [this](const std::string&) {
    next_look_ = {};
    if (begun_ && !closing_) Wake();
  };
}

ControlLoop::~ControlLoop() = default;

JobsAround ControlLoop::AroundJobs(const config::Scaling& scaling) {
  JobsAround around;
  around.now = [] { return net::Now(); };
  around.planner = [this]() -> scheduler::Planner& { return planning_.planner(); };
  around.changed = [this] { planning_.Changed(); };
  around.wake = [this] {
    if (begun_ && !closing_) Wake();
  };
  around.spawn = [this](net::Task<void> task) { loop_.tasks.Spawn(std::move(task)); };
  around.record = around_.record;
  around.off_loop = [this](std::function<absl::Status()> fn) { return net::OffLoop(loop_, std::move(fn)); };
  around.tenant_path = [this](const std::string& name) -> std::optional<std::string> {
    const TenantRuntime* const tenant = around_.runtime()->FindTenant(name);
    return tenant == nullptr ? std::nullopt : std::optional<std::string>(tenant->path);
  };
  around.metered = [this](const std::string& job) { return metering_.UpToNow({.model = {}, .job = job}); };
  around.devices_used_up = around_.devices_used_up;
  around.may_start_on = [this](std::string node) { return MayStartOn(std::move(node)); };
  around.untrusted = [this](const std::string& node) { return node_watch_.doubt(node).has_value(); };
  around.doubts = [this] { return InWords(); };
  around.launcher = launcher_.get();
  around.cluster = &planning_.cluster();
  around.queues = scaling.planning.queues;
  around.uncut = config::UncutKinds(scaling);
  around.sources = conf::SystemSources();
  around.file = around_.jobs_file;
  return around;
}

void ControlLoop::Start() {
  Configure(*around_.runtime());
  loop_.tasks.Spawn(Begin());
}

void ControlLoop::Configure(const Runtime& runtime) {
  for (auto& [model, pool] : pools_) pool.owned = false;
  if (!runtime.config().scaling) return;
  for (const config::ModelPolicy& policy : runtime.config().scaling->models) {
    const auto [at, added] = pools_.try_emplace(policy.model(), policy);
    Pool& pool = at->second;
    pool.owned = true;
    if (!added && pool.policy.sha256 != policy.sha256) {
      pool.policy = policy;
      pool.autoscaler = scheduler::autoscale::Autoscaler(policy.scaling);
    }
    if (added) Reckon(pool, net::Now());
  }
}

void ControlLoop::OnWaiting() {
  urgent_ = true;
  if (begun_ && !closing_) Wake();
}

ControlLoop::Pool* ControlLoop::PoolOf(const Replica& replica) {
  const auto pool = pools_.find(replica.model);
  return pool == pools_.end() ? nullptr : &pool->second;
}

void ControlLoop::OnAlarm() {
  const conf::TimePoint now = net::Now();
  WatchNodes(now);
  WatchDevices(now);
  if (urgent_ || now >= next_decision_) {
    urgent_ = false;
    next_decision_ = now + Meter::kTick;
    DecideAll(now);
  }
  Place(now);
  Tend(now);
  Publish(now);
  TakeSteps(now);
  jobs_.Tick();
  jobs_.TakeSteps();
  if (!looking_ && now >= next_look_) {
    next_look_ = now + kLookEvery;
    loop_.tasks.Spawn(Look());
  }
  SetAfter(Meter::kTick);
}

void ControlLoop::DecideAll(conf::TimePoint now) {
  const std::shared_ptr<const Runtime> runtime = around_.runtime();
  const std::vector<const ShardMetrics*> shards = around_.shards();
  const auto asked = AddUp(shards, *runtime);
  for (auto& [model, pool] : pools_) {
    const std::optional<ModelId> id = runtime->routes().Find(model);
    if (pool.owned && id) {
      const auto found = asked.find(model);
      pool.asked = found == asked.end() ? Asked() : found->second;
      pool.signals = pool.meter.Next(pool.asked, *runtime->model(*id).waits, now);
      Reckon(pool, now);
      const std::optional<router::RoomSpec>& room = runtime->routes().model(*id).spec.room;
      pool.signals.demand.occupied = Occupied(pool, room.value_or(router::RoomSpec{}), now);
      Decide(pool, now);
      Keep(pool, pool.asked.came, now);
    } else {
      for (Replica& replica : fleet_.all()) {
        if (replica.model == model && replica.state < State::kDraining)
          Retire(replica, "its model has no policy any more", now);
      }
    }
    Tell(pool);
  }
}

void ControlLoop::Keep(Pool& pool, uint64_t came, conf::TimePoint now) {
  const std::string& model = pool.policy.model();
  const uint32_t ready = fleet_.Count(model, State::kReady);
  uint32_t there = ready;
  for (const State coming : {State::kWaiting, State::kLaunching, State::kWarming})
    there += fleet_.Count(model, coming);
  pool.history.Add(
      {.signals = pool.signals, .came = came, .ready = ready, .there = there, .demand = pool.decision.demand},
      now);
}

void ControlLoop::Reckon(Pool& pool, conf::TimePoint now) {
  std::vector<const router::EngineSignals*> engines;
  for (const Replica& replica : fleet_.all()) {
    if (replica.load && replica.model == pool.policy.model()) engines.push_back(&replica.load->engine);
  }
  Reckoned reckoned = ReckonCapacity(pool.policy.replica->preset, engines, now);
  around_.outlooks->Get(pool.policy.model())->SetCapacity(reckoned.capacity);
  pool.capacity_by = std::move(reckoned.by);
}

// Ready replicas' parts of their batch or KV cache that are in use, summed.
double ControlLoop::Occupied(const Pool& pool, const router::RoomSpec& room, conf::TimePoint now) const {
  const std::string& model = pool.policy.model();
  const scheduler::autoscale::Capacity capacity = around_.outlooks->Get(model)->capacity();
  double sum = 0;
  for (const Replica& replica : fleet_.all()) {
    if (replica.model != model || replica.state != State::kReady || !replica.load) continue;
    sum += OccupiedOf(replica.load->engine, capacity, room, pool.policy.scaling.inter_token, now);
  }
  return sum;
}

void ControlLoop::Decide(Pool& pool, conf::TimePoint now) {
  const std::string& model = pool.policy.model();
  const std::vector<scheduler::autoscale::ReplicaView> views = fleet_.Views(model);
  conf::Duration cold_start = cold_starts_.Quantile(model, kColdStartQuantile);
  if (cold_start > conf::Duration::zero()) cold_start = std::max(cold_start, kLeastColdStart);
  pool.decision = pool.autoscaler.Tick(pool.signals, views, cold_start, now);
  const scheduler::autoscale::Decision& decision = pool.decision;
  const std::string why =
      fmt::format("{} wanted, {} there: {} (demand {:.2f} by {}{}, {:.0f} requests in flight, {:.0f} held)",
                  decision.wanted, views.size(), decision.why, decision.demand, pool.capacity_by,
                  Headroom(decision), pool.signals.in_flight, pool.signals.held);
  for (const uint32_t id : decision.failed)
    Fail(*fleet_.Find(id), "its start takes more than twice as long as nine of ten others took", now);
  for (const uint32_t id : decision.take_back) fleet_.Enter(*fleet_.Find(id), State::kReady, why, now);
  for (const uint32_t id : decision.drain) fleet_.Enter(*fleet_.Find(id), State::kDraining, why, now);
  for (const uint32_t id : decision.cancel) Retire(*fleet_.Find(id), why, now);
  for (uint32_t i = 0; i < decision.start; ++i) fleet_.Add(model, why, now);
}

void ControlLoop::Retire(Replica& replica, std::string why, conf::TimePoint now) {
  if (replica.state == State::kStopping) return;
  const bool serves = replica.state == State::kReady;
  fleet_.Enter(replica, serves ? State::kDraining : State::kStopping, std::move(why), now);
}

void ControlLoop::Fail(Replica& replica, std::string why, conf::TimePoint now, bool blameless) {
  if (replica.state == State::kStopping) return;
  ++failures_;
  log::Warn("replica failed", {{"replica", replica.run}, {"state", Name(replica.state)}, {"why", why}});
  const conf::Duration served = replica.state == State::kReady ? now - replica.since : conf::Duration();
  // Its node's fault says nothing of the model.
  blameless |= node_watch_.doubt(replica.grant.node).has_value();
  Pool* const pool = PoolOf(replica);
  if (pool != nullptr && !blameless) pool->crashes.Failed(why, served, now);
  fleet_.Enter(replica, State::kStopping, std::move(why), now);
}

void ControlLoop::Place(conf::TimePoint now) {
  SeeNodes(now);
  for (Replica& replica : fleet_.all()) {
    if (replica.state != State::kWaiting || replica.submitted) continue;
    const Pool* pool = PoolOf(replica);
    if (pool == nullptr || !pool->crashes.MayStart(now)) continue;
    planning_.Submit(replica.run, pool->policy, now);
    replica.submitted = true;
  }
  Planning::Outcome outcome = planning_.Run(now);
  for (Planning::Start& start : outcome.starts) {
    Replica* const replica = fleet_.FindRun(start.run);
    if (replica == nullptr) continue;
    replica->grant = std::move(start.grant);
    replica->launched = now;
    fleet_.Enter(*replica, State::kLaunching, fmt::format("{}; {}", replica->why, start.why), now);
  }
  for (const scheduler::Action& action : outcome.of_jobs) jobs_.Apply(action);
  for (auto& [job, why] : outcome.waiting) jobs_.Unplaced(job, std::move(why));
  for (auto& [run, why] : outcome.unplaced) {
    Replica* const replica = fleet_.FindRun(run);
    if (replica == nullptr) continue;
    replica->unplaced = planning_.Explain(run, now);
    if (replica->unplaced.empty()) replica->unplaced = std::move(why);
    for (const std::string& sentence : InWords()) replica->unplaced += " " + sentence;
  }
  for (auto& [run, why] : outcome.evicted) {
    if (Replica* const replica = fleet_.FindRun(run)) Retire(*replica, std::move(why), now);
  }
}

// What time alone brings about.
void ControlLoop::Tend(conf::TimePoint now) {
  for (Replica& replica : fleet_.all()) {
    Pool* const pool = PoolOf(replica);
    if (pool == nullptr) continue;
    const config::ReplicaTemplate& by = *pool->policy.replica;
    switch (replica.state) {
      case State::kLaunching:
      case State::kWarming:
        if (now - replica.launched <= by.ready.timeout) break;
        Fail(replica,
             fmt::format("not ready within {}{}{}", conf::FormatDuration(by.ready.timeout),
                         replica.last_probe.empty() ? "" : ": ", replica.last_probe),
             now);
        break;
      case State::kReady:
        pool->crashes.Served(now - replica.since);
        break;
      case State::kDraining: {
        if (replica.unpublished == conf::TimePoint() || now - replica.unpublished < kShardsKnow) break;
        const uint32_t left = replica.in_flight();
        if (left == 0) {
          fleet_.Enter(replica, State::kStopping, "its last request is done", now);
        } else if (now - replica.since > by.drain) {
          fleet_.Enter(
              replica, State::kStopping,
              fmt::format("{} requests have not ended within {}", left, conf::FormatDuration(by.drain)), now);
        }
        break;
      }
      case State::kWaiting:
      case State::kStopping:
        break;
    }
  }
}

// Those who wait for a replica, and operators, are told why there is none.
void ControlLoop::Tell(Pool& pool) {
  std::string trouble;
  const std::string& model = pool.policy.model();
  for (const Replica& replica : fleet_.all()) {
    if (replica.model != model || replica.state != State::kWaiting) continue;
    trouble = replica.unplaced;
    break;
  }
  if (pool.crashes.failures() > 0 && fleet_.Count(model, State::kReady) < pool.decision.wanted) {
    trouble = fmt::format("{} starts in a row have failed: {}", pool.crashes.failures(), pool.crashes.why());
  }
  if (trouble == pool.trouble) return;
  pool.trouble = trouble;
  around_.outlooks->Get(model)->SetWhyNone(std::move(trouble));
}

// Those that serve: ready ones once that is recorded, and draining ones until that is.
void ControlLoop::Publish(conf::TimePoint now) {
  std::map<std::string, std::vector<uint32_t>> serving;
  Launched launched;
  for (const Replica& replica : fleet_.all()) {
    const bool serves = (replica.state == State::kReady && replica.recorded) ||
                        (replica.state == State::kDraining && !replica.recorded);
    if (!serves || !replica.endpoint) continue;
    serving[replica.model].push_back(replica.id);
    launched[replica.model].push_back(replica.endpoint);
  }
  if (serving != published_) {
    published_ = std::move(serving);
    around_.publish(launched);
  }
  for (Replica& replica : fleet_.all()) {
    const bool out = replica.state == State::kDraining && replica.recorded;
    if (out && replica.unpublished == conf::TimePoint()) replica.unpublished = now;
  }
}

}  // namespace gateway::control
