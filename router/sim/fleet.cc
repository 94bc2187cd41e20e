#include "router/sim/fleet.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <optional>
#include <utility>

#include "router/sim/served_model.h"
#include "scheduler/autoscale/autoscaler.h"
#include "scheduler/autoscale/wake.h"
#include "scheduler/filler.h"
#include "scheduler/planner.h"

namespace router::sim {
namespace {

using conf::Duration;
using conf::TimePoint;
namespace autoscale = scheduler::autoscale;

constexpr TimePoint kFleetBegin{std::chrono::hours(1'000)};
constexpr Duration kRoomFor =
    std::chrono::seconds(10);  // until preempted work has gone, about; as in the gateway
constexpr Duration kIdleDrain = std::chrono::seconds(2);  // likewise: one that has no request drains as soon
constexpr double kTellEachPart = 0.002;

enum class Life : uint8_t { kPending, kStarting, kReady, kDraining, kFalling, kAsleep };

struct FleetReplica {
  uint32_t number = 0;
  size_t model = 0;
  Life life = Life::kPending;
  bool for_batches = false;
  bool wakes = false;                      // while pending or starting: it slept here
  bool wants_to_wake = false;              // while asleep
  bool needed_now = false;                 // likewise
  bool sleeps = false;                     // while draining: it falls asleep afterwards
  bool refused = false;                    // while pending: a cycle has found no place for it
  std::optional<size_t> makes_room_for{};  // a model, while draining or falling
  TimePoint since{};                       // of its life
  TimePoint until{};                       // while starting, falling, or draining under pressure
  TimePoint held_since{};                  // devices
  TimePoint busy_at{};
  std::string job{};  // of the planner; empty: none
  std::optional<scheduler::MemberAt> home{};

  bool holds() const { return life != Life::kPending && life != Life::kAsleep; }
};

class FleetSimulation {
 public:
  explicit FleetSimulation(const FleetOptions& options);
  FleetReport Run(const std::function<bool(double)>& keep_going);

 private:
  struct Pool {
    explicit Pool(const FleetOptions& options, const FleetModel& model)
        : spec(model),
          autoscaler(model.policy),
          served({.name = model.name,
                  .engine = model.engine,
                  .ttft = model.policy.ttft,
                  .inter_token = model.policy.inter_token,
                  .queue = {.max_wait = model.policy.hold},
                  .lines_in_flight = model.lines_in_flight,
                  .sample_every = options.sample_every,
                  .seed = options.seed},
                 model.requests, model.lines, kFleetBegin) {}

    const FleetModel& spec;
    autoscale::Autoscaler autoscaler;
    autoscale::BatchReplicas batches{};
    ServedModel served;
    Duration drain{};  // that a busy replica took, the last time
    FleetModelReport report{};
  };

  FleetReplica& AddReplica(size_t model, bool for_batches);
  FleetReplica* FindReplica(uint32_t number);
  FleetReplica* FindJob(std::string_view job);
  const FleetModel& SpecOf(const FleetReplica& replica) const { return options_.models[replica.model]; }
  scheduler::Job JobOf(const FleetReplica& replica);
  void SubmitJob(FleetReplica& replica);
  void LeavePlanner(FleetReplica& replica);
  void Enter(FleetReplica& replica, Life life);
  void Account(FleetReplica& replica);
  void GiveBack(FleetReplica& replica);  // its devices
  void Serve(FleetReplica& replica);
  void PutAway(FleetReplica& replica);
  void Drop(uint32_t number);
  void Decide(size_t model);
  autoscale::BatchReplicas::Seen LinesOf(size_t model) const;
  void SetForBatches(FleetReplica& replica, bool for_batches);
  void DecideForBatches(size_t model);
  autoscale::StartChoice ChooseStartOf(size_t model, autoscale::Need need, const FleetReplica* waits);
  void StartOneMore(size_t model, autoscale::Need need);
  bool ChooseAnew(uint32_t number);
  void TickLives();
  void TickSleepers();
  void Plan();
  bool SleepsAt(const FleetReplica& replica) const;
  bool HasFreeDevices(const FleetModel& model) const;
  std::vector<FleetReplica*> HoldersOf(const FleetReplica& sleeper);
  std::optional<autoscale::Holder> HolderOf(const FleetReplica& replica, size_t for_model) const;
  std::vector<autoscale::Holder> HoldersThatSuit(size_t for_model) const;
  autoscale::Claim ClaimOf(size_t model) const;
  void MakeRoomForWake(const FleetReplica& sleeper);
  void MakeRoomForStart(const FleetReplica& replica);
  bool Ended() const;

  const FleetOptions& options_;
  std::vector<std::unique_ptr<Pool>> pools_;
  scheduler::Planner planner_;
  scheduler::Rng rng_;
  std::vector<std::unique_ptr<FleetReplica>> replicas_;
  uint32_t last_number_ = 0;
  uint32_t last_job_ = 0;
  bool changed_ = true;  // what the planner knows, since its last cycle
  TimePoint now_ = kFleetBegin;
  TimePoint next_tick_ = kFleetBegin;
  FleetReport report_;
};

FleetSimulation::FleetSimulation(const FleetOptions& options)
    : options_(options), planner_(options.cluster, {}, {}), rng_(options.seed) {
  for (size_t m = 0; m < options.models.size(); ++m) {
    pools_.push_back(std::make_unique<Pool>(options, options.models[m]));
    for (uint32_t i = 0; i < options.models[m].initial; ++i) AddReplica(m, false);
  }
  Plan();
  for (const auto& replica : replicas_) {
    if (replica->life == Life::kStarting) Serve(*replica);
  }
  for (const auto& pool : pools_) pool->report.cold_starts = 0;
}

FleetReplica& FleetSimulation::AddReplica(size_t model, bool for_batches) {
  auto replica = std::make_unique<FleetReplica>();
  replica->number = ++last_number_;
  replica->model = model;
  replica->for_batches = for_batches;
  replica->since = now_;
  SubmitJob(*replica);
  replicas_.push_back(std::move(replica));
  return *replicas_.back();
}

FleetReplica* FleetSimulation::FindReplica(uint32_t number) {
  const auto found = std::ranges::find_if(replicas_, [&](const auto& one) { return one->number == number; });
  return found == replicas_.end() ? nullptr : found->get();
}

FleetReplica* FleetSimulation::FindJob(std::string_view job) {
  const auto found = std::ranges::find_if(replicas_, [&](const auto& one) { return one->job == job; });
  return found == replicas_.end() ? nullptr : found->get();
}

// As gateway/config/model_policy.h asks for replicas, for replicas of batches, and for those that wake.
scheduler::Job FleetSimulation::JobOf(const FleetReplica& replica) {
  const FleetModel& spec = SpecOf(replica);
  scheduler::Job job;
  job.id = spec.name + "/" + std::to_string(++last_job_);
  job.queue = "default";
  job.work = replica.for_batches ? scheduler::WorkClass::kBatch : scheduler::WorkClass::kInference;
  job.preemptible = replica.for_batches;
  job.priority = replica.for_batches ? scheduler::kFillerPriority : 0;
  job.submitted = now_;
  scheduler::DeviceAsk ask{.count = static_cast<uint16_t>(spec.engine.devices)};
  job.roles = {{.name = "replica", .ask = {.devices = {std::move(ask)}}}};
  if (replica.wants_to_wake) job.pinned = {*replica.home};
  return job;
}

void FleetSimulation::SubmitJob(FleetReplica& replica) {
  scheduler::Job job = JobOf(replica);
  replica.job = job.id;
  planner_.Submit(std::move(job), now_);
  changed_ = true;
}

void FleetSimulation::LeavePlanner(FleetReplica& replica) {
  if (replica.job.empty()) return;
  planner_.Withdraw(planner_.jobs().Find(std::exchange(replica.job, {})), now_);
  changed_ = true;
}

void FleetSimulation::Enter(FleetReplica& replica, Life life) {
  replica.life = life;
  replica.since = now_;
}

// Counts the time for which it has held its devices.
void FleetSimulation::Account(FleetReplica& replica) {
  FleetModelReport& report = pools_[replica.model]->report;
  const double seconds =
      conf::ToSeconds(now_ - std::exchange(replica.held_since, now_)) * SpecOf(replica).engine.devices;
  report.device_seconds += seconds;
  if (replica.for_batches) report.batch_seconds += seconds;
}

void FleetSimulation::GiveBack(FleetReplica& replica) {
  Account(replica);
  LeavePlanner(replica);
}

void FleetSimulation::Serve(FleetReplica& replica) {
  replica.wakes = false;
  replica.busy_at = now_;
  Enter(replica, Life::kReady);
  pools_[replica.model]->served.Add(replica.number, now_);
}

// Whether another replica of its model sleeps on its devices already.
bool FleetSimulation::SleepsAt(const FleetReplica& replica) const {
  return std::ranges::any_of(replicas_, [&](const auto& other) {
    return other->life == Life::kAsleep && other->model == replica.model &&
           other->home->holding.node == replica.home->holding.node &&
           (other->home->holding.devices & replica.home->holding.devices) != 0;
  });
}

void FleetSimulation::PutAway(FleetReplica& replica) {
  replica.sleeps = SpecOf(replica).policy.sleep && !replica.for_batches && !SleepsAt(replica);
  replica.until = TimePoint::max();
  Enter(replica, Life::kDraining);
  pools_[replica.model]->served.SetOpen(replica.number, false, now_);
}

// It holds no devices.
void FleetSimulation::Drop(uint32_t number) {
  FleetReplica& replica = *FindReplica(number);
  if (replica.life == Life::kAsleep)
    pools_[replica.model]->report.asleep_seconds += conf::ToSeconds(now_ - replica.since);
  LeavePlanner(replica);
  std::erase_if(replicas_, [&](const auto& one) { return one->number == number; });
}

bool FleetSimulation::HasFreeDevices(const FleetModel& model) const {
  for (int free = static_cast<int>(model.engine.devices); free <= scheduler::kMaxDevices; ++free) {
    if (planner_.state().nodes_with(0, free) > 0) return true;
  }
  return false;
}

std::vector<FleetReplica*> FleetSimulation::HoldersOf(const FleetReplica& sleeper) {
  std::vector<FleetReplica*> holders;
  for (const auto& other : replicas_) {
    if (other->holds() && other->home->holding.node == sleeper.home->holding.node &&
        (other->home->holding.devices & sleeper.home->holding.devices) != 0)
      holders.push_back(other.get());
  }
  return holders;
}

// Nothing: it may not sleep now, whatever it does.
std::optional<autoscale::Holder> FleetSimulation::HolderOf(const FleetReplica& replica,
                                                           size_t for_model) const {
  const FleetModel& spec = SpecOf(replica);
  if (replica.life != Life::kReady || replica.model == for_model || !spec.policy.sleep) return std::nullopt;
  const auto ready = std::ranges::count_if(replicas_, [&](const auto& other) {
    return other->model == replica.model && other->life == Life::kReady;
  });
  if (ready <= autoscale::LeastAt(spec.policy, now_)) return std::nullopt;
  return autoscale::Holder{
      .id = replica.number,
      .awake = now_ - replica.since,
      .idle = now_ - replica.busy_at,
      .min_awake = spec.policy.sleep->min_awake,
      .change = spec.fall + options_.models[for_model].wake,
      .drain = pools_[replica.model]->drain,
      .load = pools_[replica.model]->autoscaler.recent_load() / static_cast<double>(ready)};
}

autoscale::Claim FleetSimulation::ClaimOf(size_t model) const {
  const Pool& pool = *pools_[model];
  return {.load = pool.autoscaler.recent_load(),
          .oldest = pool.served.OldestWaiting(now_),
          .longest_wait = pool.spec.policy.hold,
          .is_owed = pool.served.waiting() == 0};
}

std::vector<autoscale::Holder> FleetSimulation::HoldersThatSuit(size_t for_model) const {
  std::vector<autoscale::Holder> holders;
  for (const auto& replica : replicas_) {
    if (SpecOf(*replica).engine.devices < options_.models[for_model].engine.devices) continue;
    if (const auto seen = HolderOf(*replica, for_model)) holders.push_back(*seen);
  }
  return holders;
}

// `waits`: a replica of the model that waits already, in whose place one is chosen; null: none.
autoscale::StartChoice FleetSimulation::ChooseStartOf(size_t model, autoscale::Need need,
                                                      const FleetReplica* waits) {
  using Devices = autoscale::Sleeper::Devices;
  const FleetModel& spec = options_.models[model];
  const std::vector<autoscale::Holder> suit = HoldersThatSuit(model);
  std::vector<autoscale::Sleeper> sleepers;
  autoscale::OneMore wanted{.holders = suit,
                            .claim = ClaimOf(model),
                            .times = {.wake = spec.wake, .room = kRoomFor, .cold = {}},
                            .start = spec.cold_start,
                            .need = need};
  for (const auto& replica : replicas_) {
    wanted.others_wait |= replica->wants_to_wake || replica->life == Life::kPending;
    if (replica->model != model) continue;
    wanted.falls_asleep |=
        replica->sleeps && (replica->life == Life::kDraining || replica->life == Life::kFalling);
    if (replica->life != Life::kAsleep || (replica->wants_to_wake && replica.get() != waits)) continue;
    autoscale::Sleeper& one = sleepers.emplace_back();
    one.id = replica->number;
    one.asleep = now_ - replica->since;
    one.waits = replica.get() == waits;
    for (const FleetReplica* holder : HoldersOf(*replica)) {
      const auto seen = HolderOf(*holder, model);
      const Devices devices = holder->for_batches || (seen && autoscale::IsIdle(*seen))
                                  ? Devices::kHeldByOthers
                              : SpecOf(*holder).policy.sleep ? Devices::kHeldByBusy
                                                             : Devices::kHeldForLong;
      one.devices = std::max(one.devices, devices);
      // One that makes no room now is of no use, whatever its load.
      one.load = std::max(one.load, seen ? seen->load : std::numeric_limits<double>::infinity());
    }
  }
  wanted.sleepers = sleepers;
  if (HasFreeDevices(spec)) wanted.times.cold = spec.cold_start;
  return autoscale::ChooseStart(wanted);
}

void FleetSimulation::StartOneMore(size_t model, autoscale::Need need) {
  const FleetModel& spec = options_.models[model];
  if (!spec.policy.sleep) {
    AddReplica(model, false);
    return;
  }
  const autoscale::StartChoice chosen = ChooseStartOf(model, need, nullptr);
  if (chosen.kind == autoscale::StartChoice::Kind::kNew) AddReplica(model, false);
  if (chosen.kind != autoscale::StartChoice::Kind::kWake) return;
  FleetReplica& woken = *FindReplica(chosen.sleeper);
  woken.wants_to_wake = true;
  woken.needed_now = need == autoscale::Need::kNow;
  SubmitJob(woken);
}

void FleetSimulation::Decide(size_t model) {
  Pool& pool = *pools_[model];
  const autoscale::Signals signals = pool.served.TakeSignals(options_.tick, now_);
  std::vector<autoscale::ReplicaView> views;
  for (const auto& replica : replicas_) {
    if (replica->model != model || replica->for_batches) continue;
    using enum autoscale::ReplicaPhase;
    std::optional<autoscale::ReplicaPhase> phase;
    if (replica->life == Life::kPending || replica->wants_to_wake) phase = kUnplaced;
    if (replica->life == Life::kStarting) phase = kPending;
    if (replica->life == Life::kReady) phase = kReady;
    if (replica->life == Life::kDraining && !replica->makes_room_for) phase = kDraining;
    if (phase)
      views.push_back({replica->number, *phase, replica->since, pool.served.InFlight(replica->number)});
  }
  const autoscale::Decision decision = pool.autoscaler.Tick(signals, views, pool.spec.cold_start, now_);
  for (const uint32_t number : decision.take_back) {
    FleetReplica& replica = *FindReplica(number);
    replica.sleeps = false;
    Enter(replica, Life::kReady);
    pool.served.SetOpen(number, true, now_);
  }
  uint32_t kept = autoscale::BatchReplicas::Keep(pool.spec.batch, LinesOf(model),
                                                 static_cast<uint32_t>(decision.drain.size()));
  for (const uint32_t number : decision.drain) {
    FleetReplica& replica = *FindReplica(number);
    if (kept > 0) {
      SetForBatches(replica, true);
      --kept;
    } else {
      PutAway(replica);
    }
  }
  for (const uint32_t number : decision.cancel) {
    FleetReplica& replica = *FindReplica(number);
    if (replica.life == Life::kAsleep) {
      replica.wants_to_wake = false;
      LeavePlanner(replica);
      continue;
    }
    if (replica.holds()) GiveBack(replica);
    Drop(number);
  }
  if (decision.start == 0) return;
  const bool is_needed_now = signals.held > 0 || views.size() < autoscale::LeastAt(pool.spec.policy, now_);
  const uint32_t given = autoscale::BatchReplicas::Give(LinesOf(model), decision.start);
  uint32_t left = given;
  for (const auto& replica : replicas_) {
    if (left == 0) break;
    if (replica->model != model || !replica->for_batches || replica->life != Life::kReady) continue;
    SetForBatches(*replica, false);
    --left;
  }
  for (uint32_t i = given; i < decision.start; ++i)
    StartOneMore(model, is_needed_now ? autoscale::Need::kNow : autoscale::Need::kForeseen);
}

autoscale::BatchReplicas::Seen FleetSimulation::LinesOf(size_t model) const {
  const ServedModel& served = pools_[model]->served;
  autoscale::BatchReplicas::Seen seen{.lines = served.lines(), .oldest_wait = served.OldestLine(now_)};
  for (const auto& replica : replicas_) {
    if (replica->model != model || !replica->for_batches || replica->life == Life::kDraining) continue;
    ++seen.there;
    seen.coming += replica->life == Life::kReady ? 0 : 1;
  }
  return seen;
}

// A replica that serves is for batches alone from now on, or no longer.
void FleetSimulation::SetForBatches(FleetReplica& replica, bool for_batches) {
  Account(replica);
  replica.for_batches = for_batches;
  ++pools_[replica.model]->report.changed_hands;
  replica.job =
      planner_.jobs()[planner_.Replace(planner_.jobs().Find(replica.job), JobOf(replica), now_)].job.id;
  changed_ = true;
}

void FleetSimulation::DecideForBatches(size_t model) {
  Pool& pool = *pools_[model];
  const autoscale::BatchReplicas::Decision decision =
      pool.batches.Tick(pool.spec.batch, LinesOf(model), now_);
  if (decision.start) AddReplica(model, true);
  if (!decision.end) return;
  std::vector<uint32_t> numbers;
  for (const auto& replica : replicas_) {
    if (replica->model == model && replica->for_batches && replica->life != Life::kDraining)
      numbers.push_back(replica->number);
  }
  for (const uint32_t number : numbers) {
    FleetReplica& replica = *FindReplica(number);
    if (replica.life == Life::kReady) {
      PutAway(replica);
      continue;
    }
    if (replica.holds()) GiveBack(replica);
    Drop(number);
  }
}

void FleetSimulation::TickLives() {
  for (size_t i = replicas_.size(); i-- > 0;) {
    FleetReplica& replica = *replicas_[i];
    Pool& pool = *pools_[replica.model];
    if (replica.life == Life::kStarting && now_ >= replica.until) Serve(replica);
    if (replica.life == Life::kReady &&
        (pool.served.InFlight(replica.number) > 0 || pool.served.waiting() > 0))
      replica.busy_at = now_;
    if (replica.life == Life::kDraining &&
        (pool.served.InFlight(replica.number) == 0 || now_ >= replica.until)) {
      pool.served.Remove(replica.number, now_);
      if (replica.sleeps) {
        if (now_ - replica.since > kIdleDrain) pool.drain = now_ - replica.since;
        Enter(replica, Life::kFalling);
        replica.until = now_ + pool.spec.fall;
      } else {
        GiveBack(replica);
        Drop(replica.number);
        continue;
      }
    }
    if (replica.life == Life::kFalling && now_ >= replica.until) {
      GiveBack(replica);
      replica.sleeps = replica.wants_to_wake = false;
      replica.makes_room_for.reset();
      Enter(replica, Life::kAsleep);
    }
  }
}

// Loads change while a replica waits for devices. Whether another choice took its place.
bool FleetSimulation::ChooseAnew(uint32_t number) {
  FleetReplica& replica = *FindReplica(number);
  const size_t model = replica.model;
  const bool asleep = replica.life == Life::kAsleep;
  const bool has_room =
      std::ranges::any_of(replicas_, [&](const auto& other) { return other->makes_room_for == model; });
  if (has_room || pools_[model]->served.waiting() == 0 || (!asleep && !replica.refused)) return false;
  const autoscale::StartChoice now = ChooseStartOf(model, autoscale::Need::kNow, &replica);
  if (!autoscale::IsOvertaken(asleep ? std::optional(number) : std::nullopt, now)) return false;
  if (asleep) {
    replica.wants_to_wake = false;
    LeavePlanner(replica);
  } else {
    Drop(number);
  }
  StartOneMore(model, autoscale::Need::kNow);
  return true;
}

void FleetSimulation::MakeRoomForWake(const FleetReplica& sleeper) {
  if (!sleeper.needed_now && pools_[sleeper.model]->served.waiting() == 0) return;
  for (FleetReplica* holder : HoldersOf(sleeper)) {
    const auto seen = HolderOf(*holder, sleeper.model);
    if (!seen || !autoscale::MakesRoom(*seen, ClaimOf(sleeper.model))) continue;
    PutAway(*holder);
    holder->makes_room_for = sleeper.model;
  }
}

// For a start that has found no room.
void FleetSimulation::MakeRoomForStart(const FleetReplica& replica) {
  if (!replica.refused || pools_[replica.model]->served.waiting() == 0) return;
  const bool comes = std::ranges::any_of(replicas_, [](const auto& other) {
    return other->sleeps && (other->life == Life::kDraining || other->life == Life::kFalling);
  });
  if (comes) return;
  const std::optional<autoscale::Holder> chosen = autoscale::ChooseForStart(
      HoldersThatSuit(replica.model), ClaimOf(replica.model), SpecOf(replica).cold_start);
  if (!chosen) return;
  FleetReplica& holder = *FindReplica(chosen->id);
  PutAway(holder);
  holder.makes_room_for = replica.model;
}

void FleetSimulation::TickSleepers() {
  std::vector<uint32_t> numbers;
  for (const auto& replica : replicas_) numbers.push_back(replica->number);
  for (const uint32_t number : numbers) {
    const FleetReplica& replica = *FindReplica(number);
    const auto& sleep = SpecOf(replica).policy.sleep;
    if (replica.life == Life::kAsleep) {
      if (replica.wants_to_wake) {
        if (!ChooseAnew(number)) MakeRoomForWake(replica);
      } else if (now_ - replica.since >= sleep->stop_after) {
        Drop(number);
      }
    } else if (replica.life == Life::kPending && sleep && !replica.for_batches) {
      if (!ChooseAnew(number)) MakeRoomForStart(replica);
    }
  }
}

void FleetSimulation::Plan() {
  if (!changed_ && planner_.NextDue().value_or(TimePoint::max()) > now_) return;
  changed_ = false;
  const scheduler::Plan plan = planner_.Run(now_, rng_);
  for (const scheduler::Action& action : plan.actions) {
    FleetReplica* const found = FindJob(action.job);
    if (found == nullptr) continue;
    FleetReplica& replica = *found;
    Pool& pool = *pools_[replica.model];
    if (action.kind == scheduler::ActionKind::kStart) {
      if (replica.life == Life::kAsleep) pool.report.asleep_seconds += conf::ToSeconds(now_ - replica.since);
      replica.wakes = replica.life == Life::kAsleep;
      replica.wants_to_wake = replica.needed_now = false;
      replica.home = action.members.front();
      replica.held_since = now_;
      Enter(replica, Life::kStarting);
      replica.until = now_ + (replica.wakes ? pool.spec.wake : pool.spec.cold_start);
      ++(replica.wakes         ? pool.report.wakes
         : replica.for_batches ? pool.report.batch_starts
                               : pool.report.cold_starts);
      const auto holding = static_cast<uint32_t>(std::ranges::count_if(
          replicas_, [&](const auto& one) { return one->model == replica.model && one->holds(); }));
      pool.report.most_replicas = std::max(pool.report.most_replicas, holding);
    } else if (action.kind == scheduler::ActionKind::kPreempt) {
      ++report_.preempted;
      if (replica.life == Life::kReady) {
        PutAway(replica);
        replica.until = now_ + kBatchDrain;
      } else if (replica.life == Life::kStarting) {
        GiveBack(replica);
        Drop(replica.number);
      }
    }
  }
  for (const auto& replica : replicas_) {
    if (replica->life == Life::kPending) replica->refused = true;
  }
}

bool FleetSimulation::Ended() const {
  return std::ranges::all_of(pools_, [](const auto& pool) { return pool->served.ended(); });
}

FleetReport FleetSimulation::Run(const std::function<bool(double)>& keep_going) {
  double all = 0;
  for (const FleetModel& model : options_.models) all += static_cast<double>(model.requests.size());
  double told = 0;
  while (!Ended()) {
    now_ = next_tick_;
    for (const auto& pool : pools_) now_ = std::min(now_, pool->served.Next());
    for (const auto& pool : pools_) {
      if (pool->served.Next() <= now_) pool->served.Advance(now_);
    }
    if (now_ < next_tick_) continue;
    next_tick_ = now_ + options_.tick;
    TickLives();
    for (size_t m = 0; m < pools_.size(); ++m) {
      Decide(m);
      DecideForBatches(m);
    }
    TickSleepers();
    Plan();
    if (!keep_going) continue;
    double arrived = 0;
    for (const auto& pool : pools_) arrived += static_cast<double>(pool->served.arrived());
    if (arrived / all < told + kTellEachPart) continue;
    told = arrived / all;
    if (!keep_going(told)) return report_;
  }
  report_.seconds = conf::ToSeconds(now_ - kFleetBegin);
  for (const auto& replica : replicas_) {
    if (replica->holds()) GiveBack(*replica);
    if (replica->life == Life::kAsleep)
      pools_[replica->model]->report.asleep_seconds += conf::ToSeconds(now_ - replica->since);
  }
  for (size_t m = 0; m < pools_.size(); ++m) {
    pools_[m]->report.name = options_.models[m].name;
    pools_[m]->report.served = pools_[m]->served.MakeReport(now_);
    report_.models.push_back(std::move(pools_[m]->report));
  }
  return std::move(report_);
}

}  // namespace

FleetReport SimulateFleet(const FleetOptions& options, const std::function<bool(double)>& keep_going) {
  return FleetSimulation(options).Run(keep_going);
}

}  // namespace router::sim
