#include "gateway/control/scaling/scaler.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "gateway/control/scaling/capacity.h"
#include "router/load/occupied.h"

namespace gateway::control {
namespace {

constexpr double kColdStartQuantile = 0.9;
// Shorter starts may take a multiple of the usual time by chance, which is no failure.
constexpr conf::Duration kLeastColdStart = std::chrono::seconds(10);
constexpr conf::Duration kLeadTimeRest = std::chrono::seconds(1);

std::string Headroom(const scheduler::autoscale::Decision& decision) {
  if (decision.headroom < 0.0005) return {};
  return fmt::format(", {:.1f} % more since {:.2f} % of first tokens were late", 100 * decision.headroom,
                     100 * decision.late);
}

}  // namespace

void Scaler::Configure(const Runtime& runtime, conf::TimePoint now) {
  for (auto& [model, pool] : pools_) pool.owned = false;
  if (!runtime.config().scaling) return;
  for (const config::ModelPolicy& policy : runtime.config().scaling->models) {
    const auto [at, added] = pools_.try_emplace(policy.model(), policy);
    Pool& pool = at->second;
    pool.owned = true;
    if (!added && pool.policy.sha256 != policy.sha256) {
      const std::optional<scheduler::autoscale::Hindsight::Memory> learned = pool.autoscaler.memory();
      pool.policy = policy;
      pool.autoscaler = scheduler::autoscale::Autoscaler(policy.scaling);
      pool.autoscaler.Hold(pool.held);
      if (learned) pool.autoscaler.Recall(*learned, now, now);
    }
    if (added) UpdateCapacity(pool, now);
  }
}

void Scaler::Decide(conf::TimePoint now) {
  const std::shared_ptr<const Runtime> runtime = env_.runtime();
  const std::vector<const ShardMetrics*> shards = env_.shards();
  auto asked = AddUp(shards, *runtime);
  for (const auto& [model, demand] : env_.demand_elsewhere()) Add(demand, asked[model]);
  for (auto& [model, pool] : pools_) {
    const std::optional<ModelId> id = runtime->routes().Find(model);
    if (pool.owned && id) {
      const auto found = asked.find(model);
      pool.asked = found == asked.end() ? Asked() : found->second;
      pool.signals = pool.meter.Next(pool.asked, *runtime->model(*id).waits, now);
      UpdateCapacity(pool, now);
      const std::optional<router::HeadroomLimits>& room = runtime->routes().model(*id).spec.headroom;
      pool.signals.demand.occupied = Occupied(pool, room.value_or(router::HeadroomLimits{}), now);
      ObeyHold(pool, now);
      if (pool.policy.scale) {
        DecideScaled(pool, now);
      } else {
        const LineReplicas lines = FindLineReplicas(pool, *runtime->model(*id).waits, now);
        Decide(pool, lines, now);
        DecideForBatches(pool, *runtime->model(*id).waits, now);
      }
      Keep(pool, now);
    } else {
      std::vector<std::string> ids;  // a replica without devices is dropped at once
      replicas_.ForEach(model, [&](const Workload& replica) { ids.push_back(replica.id); });
      for (const std::string& replica : ids)
        replicas_.Retire(*workloads_.Find(replica), "its model no longer has a policy");
    }
    PublishTrouble(pool);
  }
}

void Scaler::ObeyHold(Pool& pool, conf::TimePoint now) {
  const ModelOrder* const order = env_.held(pool.policy.model(), now);
  pool.held = order == nullptr ? std::nullopt : std::optional(order->replicas);
  pool.why_held = order == nullptr ? std::string() : WhyHeld(*order);
  pool.autoscaler.Hold(pool.held);
}

void Scaler::Decide(Pool& pool, const LineReplicas& lines, conf::TimePoint now) {
  const std::string& model = pool.policy.model();
  const std::vector<scheduler::autoscale::ReplicaView> views = replicas_.Views(model);
  UpdateLeadTime(pool, now);
  pool.decision = pool.autoscaler.Tick(pool.signals, views, pool.lead_time, now);
  const scheduler::autoscale::Decision& decision = pool.decision;
  const std::string why =
      fmt::format("{} wanted, {} there: {} (demand {:.2f} by {}{}, {:.0f} requests in flight, {:.0f} held)",
                  decision.wanted, views.size(), pool.why(), decision.demand, pool.capacity_by,
                  Headroom(decision), pool.signals.in_flight, pool.signals.held);
  const auto with = [this](const std::vector<uint32_t>& numbers, auto fn) {
    for (const uint32_t number : numbers) {
      if (Workload* const replica = workloads_.FindNumber(number)) fn(*replica);
    }
  };
  with(decision.failed, [&](Workload& replica) {
    replicas_.Fail(replica, "its start takes more than twice as long as 90 % of earlier starts",
                   Blame::kWorkload);
  });
  with(decision.take_back, [&](Workload& replica) { workloads_.Enter(replica, State::kRunning, why); });
  uint32_t kept = pool.held
                      ? 0
                      : scheduler::autoscale::BatchReplicas::Keep(
                            pool.policy.batch, lines.seen, static_cast<uint32_t>(decision.drain.size()));
  with(decision.drain, [&](Workload& replica) {
    if (kept == 0 || !replicas_.MayChangeHands(replica)) return sleepers_.PutAway(replica, why);
    --kept;
    replicas_.SetForBatches(replica, true, fmt::format("goes on for lines of batches alone: {}", why));
  });
  with(decision.cancel, [&](Workload& replica) { sleepers_.Cancel(replica, why); });
  if (decision.start > 0) {
    const bool is_needed_now = pool.signals.held > 0 || pool.held ||
                               views.size() < scheduler::autoscale::LeastAt(pool.policy.scaling, now);
    const auto need = is_needed_now ? Sleepers::Need::kNow : Sleepers::Need::kForeseen;
    const uint32_t given = scheduler::autoscale::BatchReplicas::Give(lines.seen, decision.start);
    uint32_t taken = 0;
    for (const std::string& id : lines.ids) {
      Workload& replica = *workloads_.Find(id);
      if (taken == given) break;
      if (!replicas_.MayChangeHands(replica)) continue;
      replicas_.SetForBatches(replica, false,
                              fmt::format("is no longer for lines of batches alone: {}", why));
      ++taken;
    }
    for (uint32_t i = taken; i < decision.start; ++i) sleepers_.Start(model, why, need);
  }
  replicas_.ForEach(model, [&](const Workload& replica) {
    if (replica.state == State::kRunning) pool.crashes.Served(now - replica.since);
  });
}

// Where the next replica would go, and how long it would take there. It looks at every node, so not at each tick.
void Scaler::UpdateLeadTime(Pool& pool, conf::TimePoint now) {
  if (now < pool.lead_time_until) return;
  pool.lead_time_until = now + kLeadTimeRest;
  const std::string& model = pool.policy.model();
  if (!learned_starts_.Knows(model)) return;
  const conf::Duration lead = learned_starts_.Lead(model, env_.places(pool.policy), kColdStartQuantile);
  pool.lead_time = lead > conf::Duration::zero() ? std::max(lead, kLeastColdStart) : lead;
}

std::vector<const config::ModelPolicy*> Scaler::PoliciesWithPrefetch() const {
  std::vector<const config::ModelPolicy*> out;
  for (const auto& [model, pool] : pools_) {
    if (pool.owned && pool.policy.weights && pool.policy.weights->prefetch) out.push_back(&pool.policy);
  }
  return out;
}

Scaler::LineReplicas Scaler::FindLineReplicas(const Pool& pool, const ModelQueue& queue,
                                              conf::TimePoint now) {
  LineReplicas found{
      .seen = {.lines = pool.asked.lines,
               .oldest_wait = std::max(pool.asked.oldest_line_elsewhere, OldestLine(queue, now))},
      .ids = {}};
  replicas_.ForEach(pool.policy.model(), [&](const Workload& replica) {
    if (!replica.for_batches || replica.ends()) return;
    found.ids.push_back(replica.id);
    ++found.seen.there;
    found.seen.coming += replica.state == State::kRunning ? 0 : 1;
  });
  return found;
}

void Scaler::DecideForBatches(Pool& pool, const ModelQueue& queue, conf::TimePoint now) {
  const std::string& model = pool.policy.model();
  const LineReplicas lines = FindLineReplicas(pool, queue, now);
  const scheduler::autoscale::BatchReplicas::Decision decision =
      pool.batches.Tick(pool.policy.batch, lines.seen, now);
  if (decision.start && !pool.held) replicas_.Add(model, decision.why, Replicas::For::kBatches);
  if (!decision.end) return;
  for (const std::string& id : lines.ids) replicas_.Retire(*workloads_.Find(id), decision.why);
}

void Scaler::DecideScaled(Pool& pool, conf::TimePoint now) {
  const std::string& model = pool.policy.model();
  const auto found = static_cast<uint32_t>(Discovered(pool).size());
  const ScaledModels::View view = env_.scaled->ViewOf(model);
  const uint32_t there = view.replicas.value_or(found);
  std::vector<scheduler::autoscale::ReplicaView> views;
  for (uint32_t i = 0; i < there; ++i) {
    using enum scheduler::autoscale::ReplicaPhase;
    views.push_back({.id = i, .phase = i < found ? kReady : kUnplaced, .since = now});
  }
  pool.decision = pool.autoscaler.Tick(pool.signals, views, conf::Duration::zero(), now);
  env_.scaled->Want(
      model, pool.decision.wanted,
      fmt::format("{} wanted, {} there: {} (demand {:.2f} by {}{}, {:.0f} requests in flight, {:.0f} "
                  "held)",
                  pool.decision.wanted, there, pool.why(), pool.decision.demand, pool.capacity_by,
                  Headroom(pool.decision), pool.signals.in_flight, pool.signals.held));
}

std::vector<const router::ReplicaState*> Scaler::Discovered(const Pool& pool) const {
  std::vector<const router::ReplicaState*> out;
  const std::shared_ptr<const Runtime> runtime = env_.runtime();
  const std::optional<ModelId> id = runtime->routes().Find(pool.policy.model());
  if (!id) return out;
  for (const router::Replica& replica : runtime->routes().replicas(*id)) {
    if (!runtime->replica(replica.id).config->source.empty()) out.push_back(&runtime->load()[replica.id]);
  }
  return out;
}

uint32_t Scaler::CountReady(const Pool& pool) const {
  return pool.policy.scale ? static_cast<uint32_t>(Discovered(pool).size())
                           : replicas_.Count(pool.policy.model(), ReplicaState::kReady);
}

uint32_t Scaler::CountComing(const Pool& pool) const {
  if (pool.policy.scale) {
    const uint32_t ready = CountReady(pool);
    const uint32_t there = env_.scaled->ViewOf(pool.policy.model()).replicas.value_or(ready);
    return there - std::min(there, ready);
  }
  uint32_t coming = 0;
  for (const ReplicaState state :
       {ReplicaState::kWaiting, ReplicaState::kLaunching, ReplicaState::kWarming, ReplicaState::kWaking})
    coming += replicas_.Count(pool.policy.model(), state);
  return coming;
}

void Scaler::UpdateCapacity(Pool& pool, conf::TimePoint now) {
  std::vector<const router::EngineSignals*> engines;
  // The runtime of this turn of the loop keeps the states.
  const std::shared_ptr<const Runtime> runtime = env_.runtime();
  if (pool.policy.scale) {
    for (const router::ReplicaState* const state : Discovered(pool)) engines.push_back(&state->engine);
  }
  replicas_.ForEach(pool.policy.model(), [&](const Workload& replica) {
    if (replica.serving.load) engines.push_back(&replica.serving.load->engine);
  });
  CapacityEstimate estimate = EstimateCapacity(pool.policy.preset(), engines, now);
  env_.scaling_hints->Get(pool.policy.model())->SetCapacity(estimate.capacity);
  pool.capacity_by = std::move(estimate.by);
}

// The sum over ready replicas of the used part of their batch or KV cache.
double Scaler::Occupied(const Pool& pool, const router::HeadroomLimits& room, conf::TimePoint now) const {
  const std::string& model = pool.policy.model();
  const scheduler::autoscale::Capacity capacity = env_.scaling_hints->Get(model)->capacity();
  double sum = 0;
  if (pool.policy.scale) {
    const std::shared_ptr<const Runtime> runtime = env_.runtime();
    for (const router::ReplicaState* const state : Discovered(pool))
      sum += router::OccupiedOf(state->engine, capacity, room, pool.policy.scaling.inter_token, now);
    return sum;
  }
  replicas_.ForEach(model, [&](const Workload& replica) {
    if (replica.state != State::kRunning || !replica.serving.load) return;
    sum += router::OccupiedOf(replica.serving.load->engine, capacity, room, pool.policy.scaling.inter_token,
                              now);
  });
  return sum;
}

void Scaler::Keep(Pool& pool, conf::TimePoint now) {
  const uint32_t ready = CountReady(pool);
  const uint32_t there = ready + CountComing(pool);
  pool.history.Add({.signals = pool.signals,
                    .came = pool.asked.came,
                    .ready = ready,
                    .there = there,
                    .demand = pool.decision.demand},
                   now);
}

// Tells waiting requests and operators why no replica serves.
void Scaler::PublishTrouble(Pool& pool) {
  std::string trouble;
  const std::string& model = pool.policy.model();
  bool waits = false;
  replicas_.ForEach(model, [&](const Workload& replica) {
    if (waits || replica.state != State::kPending || replica.for_batches) return;
    waits = true;
    trouble = replica.unplaced;
  });
  if (pool.crashes.failures() > 0 && replicas_.Count(model, ReplicaState::kReady) < pool.decision.wanted) {
    trouble = fmt::format("{} starts in a row have failed: {}", pool.crashes.failures(), pool.crashes.why());
  }
  if (pool.policy.scale && pool.owned) trouble = env_.scaled->ViewOf(model).trouble;
  if (trouble == pool.trouble) return;
  pool.trouble = trouble;
  env_.scaling_hints->Get(model)->SetWhyNone(std::move(trouble));
}

const config::ModelPolicy* Scaler::PolicyOf(const std::string& model) const {
  const auto pool = pools_.find(model);
  return pool == pools_.end() || pool->second.policy.scale ? nullptr : &pool->second.policy;
}

uint32_t Scaler::WantedOf(const std::string& model) const {
  const auto pool = pools_.find(model);
  return pool == pools_.end() ? 0 : pool->second.decision.wanted;
}

uint32_t Scaler::WaitingFor(const std::string& model) const {
  const auto pool = pools_.find(model);
  return pool == pools_.end() ? 0 : static_cast<uint32_t>(std::max(pool->second.signals.held, 0.0));
}

scheduler::autoscale::Claim Scaler::ClaimOf(const std::string& model) const {
  const auto found = pools_.find(model);
  if (found == pools_.end()) return {};
  const Pool& pool = found->second;
  return {.load = pool.autoscaler.recent_load(),
          .oldest = pool.signals.demand.oldest,
          .longest_wait = pool.policy.scaling.hold,
          .is_owed = WaitingFor(model) == 0};
}

std::vector<std::string> Scaler::Models() const {
  std::vector<std::string> out;
  for (const auto& [model, pool] : pools_) {
    if (pool.owned) out.push_back(model);
  }
  return out;
}

std::optional<scheduler::autoscale::Hindsight::Memory> Scaler::LearnedOf(const std::string& model) const {
  const auto pool = pools_.find(model);
  return pool == pools_.end() ? std::nullopt : pool->second.autoscaler.memory();
}

void Scaler::Recall(const std::string& model, const scheduler::autoscale::Hindsight::Memory& learned,
                    conf::TimePoint at, conf::TimePoint now) {
  const auto pool = pools_.find(model);
  if (pool != pools_.end()) pool->second.autoscaler.Recall(learned, at, now);
}

bool Scaler::MayStart(const std::string& model, conf::TimePoint now) const {
  const auto pool = pools_.find(model);
  return pool != pools_.end() && pool->second.crashes.MayStart(now);
}

void Scaler::OnFailure(const std::string& model, std::string why, conf::Duration served,
                       conf::TimePoint now) {
  const auto pool = pools_.find(model);
  if (pool != pools_.end()) pool->second.crashes.Failed(std::move(why), served, now);
}

std::vector<ClassStatus> Scaler::ClassesOf(const Pool& pool, conf::TimePoint now) const {
  std::vector<ClassStatus> rows;
  const std::shared_ptr<const Runtime> runtime = env_.runtime();
  const std::optional<ModelId> id = runtime->routes().Find(pool.policy.model());
  if (!id) return rows;
  const ModelRuntime& model = runtime->model(*id);
  const ModelQueue::View queue = model.waits->Describe(now, 0);
  rows.reserve(model.config->queue.bands.size());
  for (const config::Band& band : model.config->queue.bands) {
    ClassStatus& row = rows.emplace_back();
    row.name = band.name;
    if (const auto of = pool.asked.classes.find(band.name); of != pool.asked.classes.end()) {
      const AskedOfClass& asked = of->second;
      row.came = asked.came;
      row.refused = asked.refused;
      row.in_time = asked.in_time;
      row.late = asked.late;
      row.hopeless = asked.hopeless;
      // Shards keep changing while their cells are read one after the other.
      row.at_replicas = asked.active - std::min(asked.waiting, asked.active);
      row.waiting = asked.waiting;
      row.waiting_tokens = asked.waiting_tokens;
    }
    const auto waits = std::ranges::find(queue.bands, band.name, &ModelQueue::Band::name);
    if (waits != queue.bands.end()) row.oldest = waits->oldest;
  }
  return rows;
}

std::vector<ModelStatus> Scaler::Rows(conf::TimePoint now) const {
  std::vector<ModelStatus> rows;
  for (const auto& [model, pool] : pools_) {
    if (!pool.owned) continue;
    ModelStatus& row = rows.emplace_back();
    row.model = model;
    row.policy = pool.policy.file;
    row.law = conf::WordOf(scheduler::autoscale::kLawWords, pool.policy.scaling.law);
    row.min = pool.policy.scaling.min;
    row.max = pool.policy.scaling.max;
    row.demand = pool.decision.demand;
    row.wanted = pool.decision.wanted;
    row.why = pool.why();
    row.capacity = pool.capacity_by;
    row.in_flight = pool.signals.in_flight;
    row.held = pool.signals.held;
    row.headroom = pool.decision.headroom;
    row.lead_time = pool.lead_time;
    row.classes = ClassesOf(pool, now);
    for (size_t s = 0; s < kReplicaStates; ++s)
      row.replicas[s] = replicas_.Count(model, static_cast<ReplicaState>(s));
    if (pool.policy.scale) {
      row.replicas[static_cast<size_t>(ReplicaState::kReady)] = CountReady(pool);
      row.replicas[static_cast<size_t>(ReplicaState::kWarming)] = CountComing(pool);
    }
    row.failures = pool.crashes.failures();
    if (!pool.crashes.MayStart(now)) row.next_start = pool.crashes.next();
    row.trouble = pool.trouble;
  }
  return rows;
}

std::optional<ScalingHistory> Scaler::HistoryOf(const std::string& model) const {
  const auto pool = pools_.find(model);
  if (pool == pools_.end() || !pool->second.owned) return std::nullopt;
  const config::ModelPolicy& policy = pool->second.policy;
  ScalingHistory out{.file = policy.file,
                     .policy = policy.scaling,
                     .members = policy.placement.members,
                     .devices = config::DevicesOf(policy)};
  const conf::Duration p90 = cold_starts_.Quantile(model, kColdStartQuantile);
  if (p90 > conf::Duration::zero()) out.cold_start = p90;
  const auto& steps = pool->second.history.steps();
  out.steps.assign(steps.begin(), steps.end());
  return out;
}

}  // namespace gateway::control
