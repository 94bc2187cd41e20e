#include "gateway/control/starts/readiness.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "conf/text.h"
#include "gateway/control/starts/first_token.h"
#include "gateway/control/workloads/grant.h"
#include "gateway/log.h"
#include "gateway/net/tls.h"

namespace gateway::control {
namespace {

constexpr conf::Duration kShortestPause = std::chrono::milliseconds(50);
constexpr conf::Duration kLongestPause = std::chrono::seconds(1);
constexpr size_t kMaxProbes = 64;  // at a time
constexpr conf::Duration kTokenWithin = std::chrono::minutes(1);
constexpr size_t kOtherKeys = 31;  // among which a process that took the address has to guess

bool Comes(const Workload& replica) {
  return replica.state == State::kStarting && replica.serving.endpoint != nullptr && !replica.wakes;
}

// Leaves the right key and one other.
void Shorten(ReplicaKeys::Trial& trial) {
  const size_t other = trial.right == 0 ? 1 : 0;
  trial.keys = {trial.keys[other], trial.keys[trial.right]};
  trial.right = 1;
}

}  // namespace

void Readiness::Tick() {
  const conf::TimePoint now = context_.now();
  std::vector<std::string> due;
  for (const Workload& replica : workloads_.all()) {
    if (due.size() + under_way_ >= kMaxProbes) break;
    if (Comes(replica) && !replica.serving.probing && now >= replica.serving.next_probe)
      due.push_back(replica.id);
  }
  for (std::string& id : due) context_.spawn(ProbeReplica(std::move(id)));
}

net::Task<void> Readiness::ProbeReplica(std::string id) {
  Workload* replica = workloads_.Find(id);
  const config::ModelPolicy* const policy = policy_(replica->model);
  if (policy == nullptr) co_return;
  replica->serving.probing = true;
  ++under_way_;
  ReplicaKeys::Trial trial;
  if (replica->keyed) trial = context_.keys->TrialOf(id, kOtherKeys);
  Proof proof = co_await ProbeEngine(replica->members.front().run, policy->replica->ready.path,
                                     std::move(trial), replica->serving.endpoint);
  absl::StatusOr<conf::Duration> first_token = conf::Duration::zero();
  if (proof.is == Proof::Is::kGiven) first_token = co_await FirstToken(id);
  if (!first_token.ok()) proof = {Proof::Is::kNotYet, std::string(conf::Std(first_token.status().message()))};
  const conf::TimePoint ready = context_.now();
  if (proof.is == Proof::Is::kGiven) co_await BecomeReady(id, ready, *first_token);
  --under_way_;
  replica = workloads_.Find(id);
  if (replica == nullptr) co_return;
  replica->serving.probing = false;
  if (!Comes(*replica)) co_return;
  const conf::TimePoint now = context_.now();
  const conf::Duration took = now - replica->since;
  if (proof.is != Proof::Is::kGiven) {
    replica->members.front().why = proof.why;
    replica->serving.next_probe = now + std::clamp(took / 20, kShortestPause, kLongestPause);
    if (proof.is == Proof::Is::kNever) fail_(*replica, proof.why);
    co_return;
  }
}

net::Task<absl::StatusOr<conf::Duration>> Readiness::FirstToken(std::string id) {
  const Workload* const replica = workloads_.Find(id);
  const config::ModelPolicy* const policy = replica == nullptr ? nullptr : policy_(replica->model);
  // The Sleepers have asked a replica that woke, and an adopted one already has callers.
  const bool asks = policy != nullptr && policy->replica->ready.token && Comes(*replica) &&
                    !replica->serving.woken && !replica->adopted;
  if (!asks) co_return conf::Duration::zero();
  const conf::TimePoint began = context_.now();
  std::shared_ptr<const conf::Secret> key;
  if (replica->keyed) key = std::make_shared<conf::Secret>(context_.keys->Of(id));
  absl::Status answered =
      co_await AskForFirstToken(loop_, context_, replica->members.front().run, replica->serving.endpoint,
                                std::move(key), kTokenWithin, &fetches_);
  if (!answered.ok()) co_return answered;
  co_return context_.now() - began;
}

net::Task<void> Readiness::BecomeReady(std::string id, conf::TimePoint ready, conf::Duration first_token) {
  plugins::engines::StartTimes times;
  const Workload* const before = workloads_.Find(id);
  if (before != nullptr && Comes(*before) && !before->adopted && !before->serving.woken) {
    const std::string text = co_await read_start_(id);
    times = plugins::engines::ReadStartTimes(text);
  }
  Workload* const replica = workloads_.Find(id);
  if (replica == nullptr || !Comes(*replica)) co_return;
  const conf::Duration took = ready - replica->since;
  const std::string kind = KindOfDevices(*replica);
  const bool woken = std::exchange(replica->serving.woken, false);
  if (!replica->adopted) {
    (woken ? wakes_ : cold_starts_).Add(replica->model, kind, took);
    if (!woken) LearnStart(*replica, kind, ready, times, first_token);
  }
  log::Info("replica ready", {{"replica", id}, {"seconds", conf::ToSeconds(took)}});
  workloads_.Enter(*replica, State::kRunning,
                   replica->adopted ? "it answers"
                                    : fmt::format("it answers, {:.1f}s after its {}", conf::ToSeconds(took),
                                                  woken ? "devices were free" : "launch"));
}

// If no fetch was seen, the weights were there already, as far as is known.
void Readiness::LearnStart(Workload& replica, const std::string& kind, conf::TimePoint ready,
                           const plugins::engines::StartTimes& times, conf::Duration first_token) {
  const WeightsArrival& arrival = replica.serving.arrival;
  const conf::TimePoint fetched = arrival.complete() ? arrival.at : replica.since;
  const conf::Duration placed = std::max(conf::Duration::zero(), replica.started - replica.wanted);
  StartPhases& phases = replica.serving.phases;
  phases = PhasesOf(placed, replica.since, fetched, ready, times.loaded.value_or(conf::Duration::zero()),
                    times.compiled.value_or(conf::Duration::zero()), first_token);
  if (arrival.complete()) {
    phases.transferred = arrival.transferred;
    phases.neighbours = arrival.neighbours;
  }
  learned_starts_.Add(replica.model, NodeOf(context_.cluster(), replica.members.front().at), kind, phases);
}

void Readiness::Remember(const std::string& model, ModelMemory& memory) const {
  constexpr size_t kOfKind = 16;
  constexpr size_t kOfNode = 4;
  constexpr size_t kOfModel = 1000;
  memory.starts = learned_starts_.Last(model, kOfNode);
  if (memory.starts.size() > kOfModel) memory.starts.resize(kOfModel);
  memory.cold_starts = cold_starts_.Last(model, kOfKind);
  memory.wakes = wakes_.Last(model, kOfKind);
}

void Readiness::Recall(const std::string& model, const ModelMemory& memory) {
  for (const LearnedStarts::Start& start : memory.starts) learned_starts_.Recall(model, start);
  for (const ColdStarts::Start& start : memory.cold_starts) cold_starts_.Add(model, start.kind, start.took);
  for (const ColdStarts::Start& wake : memory.wakes) wakes_.Add(model, wake.kind, wake.took);
}

net::Task<Proof> Readiness::ProbeEngine(std::string run, std::string path, ReplicaKeys::Trial trial,
                                        std::shared_ptr<const config::Endpoint> endpoint) {
  auto made = TlsFor(*endpoint);
  if (!made.ok()) co_return Proof{Proof::Is::kNotYet, std::string(conf::Std(made.status().message()))};
  const std::shared_ptr<const net::TlsContext> tls = *std::move(made);
  const bool keyed = !trial.keys.empty();
  const absl::StatusOr<int> open =
      co_await AskLaunched(loop_, *endpoint, {.path = path}, nullptr, tls, &fetches_);
  if (!open.ok()) co_return Proof{Proof::Is::kNotYet, std::string(conf::Std(open.status().message()))};
  const bool asks_for_key = keyed && RefusesCaller(*open);
  if (*open >= 300 && !asks_for_key)
    co_return Proof{Proof::Is::kNotYet, fmt::format("{} answers {}", path, *open)};
  // Before the process gets the key: one that took the port first would get prompts.
  const absl::Status port = co_await context_.launcher->CheckPort(std::move(run));
  if (absl::IsFailedPrecondition(port))
    co_return Proof{Proof::Is::kNotYet, std::string(conf::Std(port.message()))};
  if (!keyed) co_return Proof{Proof::Is::kGiven, {}};
  // Where the launcher knows which process listens, one wrong key is enough to see that the engine checks keys.
  if (port.ok()) Shorten(trial);
  const conf::Secret key = trial.keys[trial.right];
  Proof proof = co_await ProveReplica(loop_, endpoint, std::move(trial), tls, &fetches_);
  if (proof.is != Proof::Is::kGiven || !asks_for_key) co_return proof;
  const absl::StatusOr<int> ready =
      co_await AskLaunched(loop_, *endpoint, {.path = path}, &key, tls, &fetches_);
  if (!ready.ok()) co_return Proof{Proof::Is::kNotYet, std::string(conf::Std(ready.status().message()))};
  if (*ready >= 300) co_return Proof{Proof::Is::kNotYet, fmt::format("{} answers {}", path, *ready)};
  co_return proof;
}

// Of its leader; empty: it has none.
std::string Readiness::KindOfDevices(const Workload& replica) const {
  const scheduler::Holding& holding = replica.members.front().at.holding;
  if (holding.node >= context_.cluster().nodes.size()) return {};
  return GrantOf(context_.cluster(), holding).kind;
}

}  // namespace gateway::control
