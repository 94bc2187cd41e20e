#include "gateway/control/replicas/sleepers.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <limits>
#include <utility>
#include <vector>

#include "conf/shown.h"
#include "conf/text.h"
#include "gateway/control/starts/first_token.h"
#include "gateway/control/starts/replica_proof.h"
#include "gateway/log.h"
#include "scheduler/autoscale/wake.h"

namespace gateway::control {
namespace {

using scheduler::autoscale::Sleeper;
using scheduler::autoscale::SleepLevel;

constexpr double kUsual = 0.5;                               // quantile
constexpr conf::Duration kGrace = std::chrono::seconds(10);  // until preempted work has gone, about
constexpr conf::Duration kStuck =
    std::chrono::seconds(5);  // it waits for a node or device that takes no work
constexpr conf::Duration kIdleDrain = std::chrono::seconds(2);  // one that has no request drains as soon
constexpr conf::Duration kFallsWithin = std::chrono::minutes(1);

}  // namespace

const Sleepers::Settings* Sleepers::SettingsOf(const Workload& replica) const {
  const config::ModelPolicy* const policy = env_.policy(replica.model);
  return policy != nullptr && policy->scaling.sleep ? &*policy->scaling.sleep : nullptr;
}

void Sleepers::PutAway(Workload& replica, const std::string& why) {
  const bool sleeps = SettingsOf(replica) != nullptr && replica.state == State::kRunning &&
                      !replica.for_batches && !SleepsAt(replica);
  if (!sleeps) return replicas_.Retire(replica, why);
  workloads_.End(replica, Afterwards::kSleeps, why);
}

// Whether another replica of its model sleeps on its devices already.
bool Sleepers::SleepsAt(const Workload& replica) const {
  return std::ranges::any_of(workloads_.all(), [&](const Workload& other) {
    return other.state == State::kAsleep && other.model == replica.model &&
           std::ranges::any_of(other.members, [&](const Member& member) {
             const scheduler::Holding& own = replica.members.front().at.holding;
             return member.home && member.home->holding.node == own.node &&
                    (member.home->holding.devices & own.devices) != 0;
           });
  });
}

void Sleepers::Cancel(Workload& replica, const std::string& why) {
  if (replica.state == State::kAsleep) return workloads_.SetWake(replica, false, why);
  replicas_.Retire(replica, why);
}

// The planner's jobs on the devices where it would wake.
std::vector<scheduler::JobIndex> Sleepers::HoldersOf(const Workload& sleeper) const {
  std::vector<scheduler::JobIndex> holders;
  const scheduler::ClusterState& state = context_.planning->planner().state();
  for (const Member& member : sleeper.members) {
    if (!member.home || member.home->holding.node >= context_.cluster().nodes.size()) continue;
    for (const scheduler::MemberId id : state.on(member.home->holding.node)) {
      const scheduler::Member& other = state.member(id);
      if ((other.holding.devices & member.home->holding.devices) != 0) holders.push_back(other.job);
    }
  }
  return holders;
}

// Judged by the first choice of a cold start. An estimate: topology and quotas are the planner's matter.
bool Sleepers::HasFreeDevices(const config::ModelPolicy& policy) const {
  const scheduler::ClusterState& state = context_.planning->planner().state();
  const auto& kinds = context_.cluster().kinds;
  for (const config::DeviceNeed& need : policy.placement.devices) {
    if (need.ask.count == 0) continue;
    for (size_t k = 0; k < kinds.size(); ++k) {
      const std::vector<std::string>& asked = need.ask.kinds;
      if (!asked.empty() && std::ranges::find(asked, kinds[k].name) == asked.end()) continue;
      for (int free = need.ask.count; free <= scheduler::kMaxDevices; ++free) {
        if (state.nodes_with(static_cast<scheduler::KindId>(k), free) > 0) return true;
      }
    }
  }
  return false;
}

scheduler::autoscale::StartChoice Sleepers::ChooseStartOf(const config::ModelPolicy& policy, Need need,
                                                          const Workload* waits) const {
  const std::string& model = policy.model();
  const conf::TimePoint now = context_.now();
  std::vector<Sleeper> sleepers;
  bool falls_asleep = false;
  replicas_.ForEach(model, [&](const Workload& replica) {
    falls_asleep |= replica.state == State::kSaving && replica.afterwards == Afterwards::kSleeps;
    if (replica.state != State::kAsleep || replica.serving.set_aside) return;
    if (replica.wants_to_wake && &replica != waits) return;
    Sleeper& one = sleepers.emplace_back();
    one.id = replica.number;
    one.asleep = now - replica.since;
    one.waits = &replica == waits;
    for (const scheduler::JobIndex holder : HoldersOf(replica)) {
      one.devices = std::max(one.devices, DevicesHeldBy(holder, model));
      one.load = std::max(one.load, LoadOn(holder, model));
    }
  });
  scheduler::autoscale::StartTimes times{.wake = env_.wake(model), .room = kGrace, .cold = {}};
  if (HasFreeDevices(policy)) times.cold = env_.cold_start(model);
  const bool others_wait = std::ranges::any_of(workloads_.all(), [](const Workload& other) {
    return other.kind == Kind::kReplica &&
           (other.wants_to_wake || (other.state == State::kPending && !other.held));
  });
  const std::vector<scheduler::autoscale::Holder> holders = HoldersThatSuit(policy);
  return scheduler::autoscale::ChooseStart({.sleepers = sleepers,
                                            .holders = holders,
                                            .claim = env_.claim(model),
                                            .times = times,
                                            .start = env_.cold_start(model),
                                            .need = need,
                                            .falls_asleep = falls_asleep,
                                            .others_wait = others_wait});
}

void Sleepers::Start(const std::string& model, const std::string& why, Need need) {
  const config::ModelPolicy* const policy = env_.policy(model);
  if (policy == nullptr || !policy->scaling.sleep) {
    replicas_.Add(model, why);
    return;
  }
  const scheduler::autoscale::StartChoice chosen = ChooseStartOf(*policy, need, nullptr);
  switch (chosen.kind) {
    case scheduler::autoscale::StartChoice::Kind::kNothing:
      return;
    case scheduler::autoscale::StartChoice::Kind::kNew:
      replicas_.Add(model, why);
      return;
    case scheduler::autoscale::StartChoice::Kind::kWake:
      break;
  }
  Workload& woken = *workloads_.FindNumber(chosen.sleeper);
  workloads_.SetWake(woken, true, why);
  woken.serving.needed_now = need == Need::kNow;
}

scheduler::autoscale::Sleeper::Devices Sleepers::DevicesHeldBy(scheduler::JobIndex job,
                                                               const std::string& for_model) const {
  const scheduler::Job& holder = context_.planning->planner().jobs()[job].job;
  if (holder.preemptible) return Sleeper::Devices::kHeldByOthers;
  const Workload* const replica = workloads_.Find(holder.id);
  if (replica == nullptr || replica->kind != Kind::kReplica || SettingsOf(*replica) == nullptr)
    return Sleeper::Devices::kHeldForLong;
  const auto seen = HolderOf(*replica, for_model);
  return seen && scheduler::autoscale::IsIdle(*seen) ? Sleeper::Devices::kHeldByOthers
                                                     : Sleeper::Devices::kHeldByBusy;
}

// Infinite for a holder that makes no room now, whatever its load.
double Sleepers::LoadOn(scheduler::JobIndex job, const std::string& for_model) const {
  const Workload* const replica = workloads_.Find(context_.planning->planner().jobs()[job].job.id);
  const auto seen = replica == nullptr ? std::nullopt : HolderOf(*replica, for_model);
  return seen ? seen->load : std::numeric_limits<double>::infinity();
}

// Loads change while a replica waits for devices. Whether another choice took its place.
bool Sleepers::ChooseAnew(Workload& replica) {
  const std::string model = replica.model;
  const config::ModelPolicy* const policy = env_.policy(model);
  if (policy == nullptr || !policy->scaling.sleep || env_.waiting(model) == 0) return false;
  const bool has_room = std::ranges::any_of(
      workloads_.all(), [&](const Workload& other) { return other.serving.makes_room_for == model; });
  if (has_room) return false;
  const bool asleep = replica.state == State::kAsleep;
  if (!scheduler::autoscale::IsOvertaken(asleep ? std::optional(replica.number) : std::nullopt,
                                         ChooseStartOf(*policy, Need::kNow, &replica)))
    return false;
  const std::string why = asleep ? "a replica on other devices serves sooner"
                                 : fmt::format("a replica of {} that sleeps serves sooner", model);
  Cancel(replica, why);
  Start(model, why, Need::kNow);
  return true;
}

void Sleepers::Tick() {
  std::vector<std::string> ids;
  for (Workload& workload : workloads_.all()) {
    if (workload.kind != Kind::kReplica) continue;
    ids.push_back(workload.id);
    if (workload.state == State::kRunning && (workload.in_flight() > 0 || env_.waiting(workload.model) > 0))
      workload.serving.busy_at = context_.now();
  }
  for (std::string& id : ids) {
    Workload& replica = *workloads_.Find(id);
    const bool on_disk = replica.recorded && replica.saved && !replica.busy;
    if (replica.serving.called) continue;
    if (replica.state == State::kAsleep) {
      TickAsleep(replica);
    } else if (replica.state == State::kPending && !replica.held) {
      MakeRoomForStart(replica);
    } else if (replica.state == State::kSaving && replica.serving.idle && on_disk) {
      replica.serving.called = true;
      context_.spawn(AskToSleep(std::move(id)));
    } else if (replica.state == State::kStarting && replica.wakes && replica.serving.endpoint && on_disk) {
      replica.serving.called = true;
      context_.spawn(AskToWake(std::move(id)));
    }
  }
}

void Sleepers::TickAsleep(Workload& replica) {
  const Settings* const settings = SettingsOf(replica);
  if (settings == nullptr) return replicas_.Retire(replica, "its policy lets no replica sleep");
  if (replica.wants_to_wake) {
    // The planner has said why. While nothing is planned, for example without room for records, it sleeps on.
    const bool is_stuck = context_.now() - replica.serving.wake_asked >= kStuck &&
                          !replica.unplaced.empty() && HoldersOf(replica).empty();
    if (is_stuck)
      return replicas_.Retire(
          replica, fmt::format("its devices are free, but it does not get them: {}", replica.unplaced));
    if (!ChooseAnew(replica)) MakeRoomForWake(replica);
    return;
  }
  const conf::Duration asleep = context_.now() - replica.since;
  if (asleep >= settings->stop_after)
    return replicas_.Retire(replica, fmt::format("it has slept for {}", conf::InWords(asleep)));
  if (!replica.unplaced.empty())
    replicas_.Retire(replica,
                     fmt::format("its node has no room for the memory that it keeps while it sleeps: {}",
                                 replica.unplaced));
}

// Absent: it may not sleep now.
std::optional<scheduler::autoscale::Holder> Sleepers::HolderOf(const Workload& replica,
                                                               const std::string& for_model) const {
  if (replica.kind != Kind::kReplica || replica.state != State::kRunning || replica.model == for_model)
    return std::nullopt;
  const Settings* const settings = SettingsOf(replica);
  if (settings == nullptr) return std::nullopt;
  const uint32_t least = scheduler::autoscale::LeastAt(env_.policy(replica.model)->scaling, context_.now());
  const uint32_t ready = replicas_.Count(replica.model, ReplicaState::kReady);
  if (ready <= least) return std::nullopt;
  const conf::TimePoint now = context_.now();
  return scheduler::autoscale::Holder{.id = replica.number,
                                      .awake = now - replica.since,
                                      .idle = now - std::max(replica.since, replica.serving.busy_at),
                                      .min_awake = settings->min_awake,
                                      .change = falls_.Quantile(replica.model, kUsual) + env_.wake(for_model),
                                      .drain = drains_.Quantile(replica.model, kUsual),
                                      .load = env_.claim(replica.model).load / ready};
}

std::vector<scheduler::autoscale::Holder> Sleepers::HoldersThatSuit(const config::ModelPolicy& policy) const {
  const auto suits = [&](const Workload& holder) {
    const scheduler::Holding& holding = holder.members.front().at.holding;
    if (holding.node >= context_.cluster().nodes.size()) return false;
    const std::string& kind = context_.cluster().kinds[context_.cluster().type_of(holding.node).kind].name;
    return std::ranges::any_of(policy.placement.devices, [&](const config::DeviceNeed& need) {
      const std::vector<std::string>& asked = need.ask.kinds;
      const bool right = asked.empty() || std::ranges::find(asked, kind) != asked.end();
      return right && std::popcount(holding.devices) >= std::max<int>(need.ask.count, 1);
    });
  };
  std::vector<scheduler::autoscale::Holder> holders;
  for (const Workload& holder : workloads_.all()) {
    const auto seen = HolderOf(holder, policy.model());
    if (seen && suits(holder)) holders.push_back(*seen);
  }
  return holders;
}

void Sleepers::MakeRoomForWake(const Workload& sleeper) {
  if (!sleeper.serving.needed_now && env_.waiting(sleeper.model) == 0) return;
  const scheduler::Planner& planner = context_.planning->planner();
  for (const scheduler::JobIndex index : HoldersOf(sleeper)) {
    Workload* const holder = workloads_.Find(planner.jobs()[index].job.id);
    const auto seen = holder == nullptr ? std::nullopt : HolderOf(*holder, sleeper.model);
    if (!seen || !scheduler::autoscale::MakesRoom(*seen, env_.claim(sleeper.model))) continue;
    PutAway(*holder,
            fmt::format("makes room for {} of {}, which slept on its devices", sleeper.id, sleeper.model));
    holder->serving.makes_room_for = sleeper.model;
  }
}

// For a cold start that has found no room.
void Sleepers::MakeRoomForStart(Workload& replica) {
  const config::ModelPolicy* const policy = env_.policy(replica.model);
  if (policy == nullptr || replica.unplaced.empty() || env_.waiting(replica.model) == 0) return;
  if (ChooseAnew(replica)) return;
  const bool comes = std::ranges::any_of(workloads_.all(), [](const Workload& other) {
    return other.state == State::kSaving && other.afterwards == Afterwards::kSleeps;
  });
  if (comes) return;
  const std::optional<scheduler::autoscale::Holder> chosen = scheduler::autoscale::ChooseForStart(
      HoldersThatSuit(*policy), env_.claim(replica.model), env_.cold_start(replica.model));
  if (!chosen) return;
  Workload& holder = *workloads_.FindNumber(chosen->id);
  PutAway(holder, fmt::format("makes room for {} of {}, which waits for devices", replica.id, replica.model));
  holder.serving.makes_room_for = replica.model;
}

net::Task<absl::Status> Sleepers::Call(std::string id, std::span<const plugins::engines::EngineCall> calls) {
  const Workload* replica = workloads_.Find(id);
  const std::shared_ptr<const config::Endpoint> endpoint = replica->serving.endpoint;
  const std::string run = replica->members.front().run;
  const Settings* const settings = SettingsOf(*replica);
  const conf::Duration timeout =
      settings == nullptr ? kFallsWithin : std::max(settings->wake_timeout, kFallsWithin);
  const bool keyed = replica->keyed;
  const absl::StatusOr<std::shared_ptr<const net::TlsContext>> tls = TlsFor(*endpoint);
  if (!tls.ok()) co_return tls.status();
  const absl::Status port = co_await context_.launcher->CheckPort(run);
  if (absl::IsFailedPrecondition(port)) co_return port;
  const conf::Secret key = keyed ? context_.keys->Of(id) : conf::Secret();
  for (const plugins::engines::EngineCall& call : calls) {
    const absl::StatusOr<int> status = co_await AskLaunched(
        loop_, *endpoint, {.path = call.path, .query = call.query, .body = call.body, .timeout = timeout},
        keyed ? &key : nullptr, *tls, &calls_);
    if (!status.ok()) co_return status.status();
    if (*status >= 300) {
      co_return absl::FailedPreconditionError(conf::Abseil(fmt::format(
          "{} answers {}{}", call.path, *status,
          *status == 404 ? ": the engine was started without sleep (docs/models.md says how)" : "")));
    }
  }
  co_return absl::OkStatus();
}

net::Task<void> Sleepers::AskToSleep(std::string id) {
  ++under_way_;
  const conf::TimePoint began = context_.now();
  Workload* replica = workloads_.Find(id);
  const conf::Duration drained = began - replica->since;
  const Settings* const settings = SettingsOf(*replica);
  const plugins::engines::EngineSleep* const how =
      plugins::engines::FindEngineSleep(Name(replica->serving.endpoint->engine));
  absl::Status asleep = absl::FailedPreconditionError("its policy lets no replica sleep");
  if (settings != nullptr && how != nullptr)
    asleep = co_await Call(id, settings->level == SleepLevel::kNothing ? how->deep : how->light);
  const auto still = [&] {
    replica = workloads_.Find(id);
    return replica != nullptr && replica->state == State::kSaving &&
           replica->afterwards == Afterwards::kSleeps;
  };
  if (still() && asleep.ok() && !co_await env_.metered(*replica))
    asleep = absl::UnavailableError("its device time is not on disk");
  --under_way_;
  if (!still()) {
    if (replica != nullptr) replica->serving.called = false;
    co_return;
  }
  replica->serving.called = false;
  if (asleep.ok()) {
    falls_.Add(replica->model, {}, context_.now() - began);
    if (drained > kIdleDrain) drains_.Add(replica->model, {}, drained);
    co_return workloads_.FallAsleep(*replica, replica->why);
  }
  log::Warn("replica does not fall asleep, so it is ended",
            {{"replica", id}, {"why", conf::Std(asleep.message())}});
  replica->afterwards = Afterwards::kEnds;
  workloads_.Enter(*replica, State::kDraining,
                   fmt::format("it did not fall asleep: {}", conf::Std(asleep.message())));
}

net::Task<void> Sleepers::AskToWake(std::string id) {
  ++under_way_;
  Workload* replica = workloads_.Find(id);
  const Settings* const settings = SettingsOf(*replica);
  const plugins::engines::EngineSleep* const how =
      plugins::engines::FindEngineSleep(Name(replica->serving.endpoint->engine));
  absl::Status awake = absl::FailedPreconditionError("its policy lets no replica sleep");
  if (settings != nullptr && how != nullptr)
    awake = co_await Call(id, settings->level == SleepLevel::kNothing ? how->wake_deep : how->wake);
  if (awake.ok() && workloads_.Find(id) != nullptr) awake = co_await AskForOneToken(id);
  --under_way_;
  replica = workloads_.Find(id);
  if (replica == nullptr) co_return;
  replica->serving.called = false;
  if (replica->state != State::kStarting) co_return;
  if (!awake.ok()) {
    co_return replicas_.Fail(*replica, fmt::format("did not wake: {}", conf::Std(awake.message())),
                             Blame::kPlace);
  }
  replica->wakes = false;
  context_.wake();
}

// The first request after a wake pays for what the engine builds again; callers need not.
net::Task<absl::Status> Sleepers::AskForOneToken(std::string id) {
  const Workload& replica = *workloads_.Find(id);
  const Settings* const settings = SettingsOf(replica);
  const conf::Duration timeout =
      settings == nullptr ? kFallsWithin : std::max(settings->wake_timeout, kFallsWithin);
  std::shared_ptr<const conf::Secret> key;
  if (replica.keyed) key = std::make_shared<conf::Secret>(context_.keys->Of(id));
  co_return co_await AskForFirstToken(loop_, context_, replica.members.front().run, replica.serving.endpoint,
                                      std::move(key), timeout, &calls_);
}

}  // namespace gateway::control
