#include "gateway/control/replicas/replicas.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "conf/json_dump.h"
#include "conf/shown.h"
#include "gateway/config/cut_devices.h"
#include "gateway/control/replicas/replica_endpoint.h"
#include "gateway/control/weights/node_weights.h"
#include "gateway/control/workloads/grant.h"
#include "gateway/log.h"
#include "plugins/engines/engine_key.h"
#include "plugins/launchers/placeholders.h"
#include "plugins/weights/store_law.h"

namespace gateway::control {
namespace {

using scheduler::autoscale::ReplicaPhase;

// A replica on a node without trust that may still answer counts for this long as if the node were trusted.
constexpr conf::Duration kPatience = std::chrono::seconds(10);
constexpr conf::Duration kDrainOfBatches = std::chrono::seconds(15);  // somebody waits for its devices
constexpr conf::Duration kLate = std::chrono::seconds(5);  // later than this, a replica counts as late
// After a replica was removed from the routes: by then every shard has the new routes.
constexpr conf::Duration kShardsKnow = std::chrono::milliseconds(500);

std::optional<ReplicaPhase> PhaseOf(const Workload& replica) {
  switch (replica.state) {
    case State::kPending:
      return ReplicaPhase::kUnplaced;
    case State::kPlaced:
    case State::kStarting:
      return ReplicaPhase::kPending;
    case State::kRunning:
      return ReplicaPhase::kReady;
    case State::kAsleep:
      if (replica.wants_to_wake) return ReplicaPhase::kUnplaced;
      break;
    case State::kSaving:
      if (!replica.serving.idle && replica.serving.makes_room_for.empty()) return ReplicaPhase::kDraining;
      break;  // its engine may sleep by now, or its devices are another's soon
    case State::kDraining:
    case State::kStopped:
      break;
  }
  return std::nullopt;
}

bool Serves(const Workload& replica) {
  return replica.state == State::kRunning || replica.state == State::kSaving;
}

// Why a member does not start, if reported: one that does not run yet before one that does not
// answer.
std::string Obstacle(const Workload& replica, const scheduler::Cluster& cluster) {
  const Member* late = nullptr;
  for (const Member& member : replica.members) {
    if (member.why.empty()) continue;
    if (late == nullptr || (late->running && !member.running)) late = &member;
  }
  if (late == nullptr) return {};
  if (replica.members.size() == 1) return late->why;
  return fmt::format("member {} on {}: {}", late - replica.members.data(), NodeOf(cluster, late->at),
                     late->why);
}

// When a start began, or went on because its weights had arrived.
conf::TimePoint BeginOfStart(const Workload& replica) {
  const WeightsArrival& arrival = replica.serving.arrival;
  const bool starts = replica.state == State::kStarting && arrival.complete();
  return starts ? std::max(replica.since, arrival.at) : replica.since;
}

// The environment by which engines and their libraries use the fetched weights, and fetch nothing by themselves.
// Variables of the policy stay.
void AddWeightsVariables(const plugins::launchers::WeightsStep& step, std::string_view engine,
                         std::vector<std::pair<std::string, std::string>>& env) {
  const auto add = [&env](std::string_view name, std::string value) {
    const bool set = std::ranges::any_of(env, [&](const auto& one) { return one.first == name; });
    if (!set) env.emplace_back(name, std::move(value));
  };
  add("HF_HUB_OFFLINE", "1");
  add("TRANSFORMERS_OFFLINE", "1");
  if (step.cache.empty()) return;
  if (engine == "vllm") add("VLLM_CACHE_ROOT", "{compile_cache}/vllm");
  add("TORCHINDUCTOR_CACHE_DIR", "{compile_cache}/inductor");
  add("TRITON_CACHE_DIR", "{compile_cache}/triton");
}

// A member that does not lead may listen, too.
bool NamesPort(const plugins::launchers::RunSpec& spec) {
  const auto names = [](std::string_view text) { return text.find("{port}") != std::string_view::npos; };
  return std::ranges::any_of(spec.command, names) ||
         std::ranges::any_of(spec.env, [&](const auto& variable) { return names(variable.second); });
}

}  // namespace

bool Answers(const Workload& replica, conf::TimePoint now) {
  return replica.serving.load->health.Usable() &&
         replica.serving.load->breaker.phase(now) != router::Breaker::Phase::kOpen;
}

ReplicaState ReplicaStateOf(const Workload& replica) {
  switch (replica.state) {
    case State::kPending:
      return ReplicaState::kWaiting;
    case State::kPlaced:
    case State::kStarting:
      if (replica.wakes || replica.serving.woken) return ReplicaState::kWaking;
      return replica.serving.endpoint ? ReplicaState::kWarming : ReplicaState::kLaunching;
    case State::kRunning:
      return ReplicaState::kReady;
    case State::kAsleep:
      return ReplicaState::kAsleep;
    case State::kSaving:
      return ReplicaState::kDraining;
    case State::kDraining:
    case State::kStopped:
      break;
  }
  return ReplicaState::kStopping;
}

Workload& Replicas::Add(std::string_view model, std::string why, For whom) {
  Workload replica;
  replica.for_batches = whom == For::kBatches;
  // Unique over all processes: microseconds, and more than the last one.
  last_stamp_ = std::max(last_stamp_ + 1, conf::ToUnixMicros(context_.now()));
  replica.id = ReplicaId(model, last_stamp_);
  replica.kind = Kind::kReplica;
  replica.model = model;
  replica.since = replica.wanted = context_.now();
  replica.why = std::move(why);
  replica.actor = "control";
  replica.recorded = replica.saved = true;  // nothing is recorded before it has devices
  replica.held = true;
  if (const config::ModelPolicy* const policy = env_.policy(replica.model); policy != nullptr)
    replica.model_version = env_.version_in_force(*policy);
  return workloads_.Add(std::move(replica));
}

Workload& Replicas::AddVersion(std::string_view model, std::string version, std::string why) {
  Workload& replica = Add(model, std::move(why));
  replica.model_version = std::move(version);
  return replica;
}

void Replicas::Retire(Workload& replica, std::string why) {
  if (replica.ends()) return;
  if (replica.holds()) return workloads_.End(replica, Afterwards::kEnds, std::move(why));
  workloads_.LeavePlanner(replica);
  workloads_.Drop(replica);
}

bool Replicas::MayChangeHands(const Workload& replica) const {
  const auto replaces_it = [&](const Workload& other) { return other.replaces == replica.id; };
  return replica.state == State::kRunning && replica.recorded && !replica.serving.set_aside &&
         replica.replaces.empty() && context_.planning->Knows(replica.id) &&
         std::ranges::none_of(workloads_.all(), replaces_it);
}

void Replicas::SetForBatches(Workload& replica, bool for_batches, std::string why) {
  replica.for_batches = for_batches;
  replica.serving.continues = true;
  context_.planning->Replace(AskOf(replica), context_.now());
  workloads_.Enter(replica, State::kRunning, std::move(why));
}

void Replicas::EndAll(const std::string& why) {
  std::vector<std::string> ids;
  for (const Workload& workload : workloads_.all()) {
    if (workload.kind == Kind::kReplica && workload.state != State::kDraining) ids.push_back(workload.id);
  }
  for (const std::string& id : ids) {
    Workload& replica = *workloads_.Find(id);
    if (!replica.holds()) {
      Retire(replica, why);
      continue;
    }
    replica.afterwards = Afterwards::kEnds;
    workloads_.Enter(replica, State::kDraining, why);
  }
}

void Replicas::Tick() {
  const conf::TimePoint now = context_.now();
  std::vector<std::string> ids;
  for (const Workload& workload : workloads_.all()) {
    if (workload.kind == Kind::kReplica) ids.push_back(workload.id);
  }
  for (const std::string& id : ids) Tick(*workloads_.Find(id), now);
}

void Replicas::Tick(Workload& replica, conf::TimePoint now) {
  const config::ModelPolicy* const policy = env_.policy(replica.model);
  if (policy == nullptr) return Retire(replica, "its model no longer has a policy");
  const config::ReplicaTemplate& by = config::TemplateOf(*policy, replica.model_version);
  const std::optional<config::Weights>& weights = config::WeightsOf(*policy, replica.model_version);
  switch (replica.state) {
    case State::kPending:
      if (replica.held) workloads_.AskPlanner(replica);
      break;
    case State::kPlaced:
    case State::kStarting: {
      const std::optional<scheduler::autoscale::SleepSettings>& sleep = policy->scaling.sleep;
      const bool woken = sleep && (replica.wakes || replica.serving.woken);
      const bool fetches = weights && !woken && !replica.serving.arrival.complete();
      conf::Duration timeout = woken ? sleep->wake_timeout : by.ready.timeout;
      if (fetches) timeout += weights->timeout;
      if (now - BeginOfStart(replica) <= timeout) break;
      const std::string obstacle = Obstacle(replica, context_.cluster());
      Fail(replica,
           fmt::format("{} within {}{}{}", woken ? "did not wake" : "not ready", conf::InWords(timeout),
                       obstacle.empty() ? "" : ": ", obstacle),
           woken ? Blame::kPlace : Blame::kWorkload);
      break;
    }
    case State::kSaving: {
      if (replica.serving.unpublished == conf::TimePoint() || now - replica.serving.unpublished < kShardsKnow)
        break;
      // Absent: another gateway may still send it requests.
      const std::optional<uint32_t> elsewhere = env_.left_elsewhere(replica);
      const uint32_t left = replica.in_flight() + elsewhere.value_or(0);
      const conf::Duration drain = replica.for_batches ? std::min(by.drain, kDrainOfBatches) : by.drain;
      if (left == 0 && elsewhere && replica.afterwards == Afterwards::kSleeps) {
        replica.serving.idle = true;
      } else if (left == 0 && elsewhere) {
        workloads_.Enter(replica, State::kDraining, "its last request has ended");
      } else if (now - replica.since > drain) {
        replica.afterwards = std::max(replica.afterwards, Afterwards::kEnds);
        workloads_.Enter(
            replica, State::kDraining,
            left == 0 ? fmt::format("another gateway has not confirmed within {} that it sends it nothing",
                                    conf::InWords(drain))
                      : fmt::format("{} {} not ended within {}", conf::Counted(left, "request"),
                                    left == 1 ? "has" : "have", conf::InWords(drain)));
      }
      break;
    }
    case State::kRunning:
    case State::kAsleep:
    case State::kDraining:
    case State::kStopped:
      break;
  }
}

void Replicas::Publish() {
  std::map<std::string, std::vector<std::string>> serving;
  Launched launched;
  for (Workload& replica : workloads_.all()) {
    if (replica.kind != Kind::kReplica || !replica.serving.endpoint) continue;
    // Once its engine has ended, another process can take its port before the last of its processes is gone.
    const bool listens = replica.members.front().running;
    const bool serves = (replica.state == State::kRunning && replica.recorded && listens) ||
                        (replica.serving.continues && listens &&
                         (replica.state == State::kStarting || replica.state == State::kRunning)) ||
                        (replica.state == State::kSaving && !replica.recorded);
    if (!serves) continue;
    const config::ModelPolicy* const policy = env_.policy(replica.model);
    const VersionRole role =
        policy == nullptr ? VersionRole::kServes : env_.role(*policy, replica.model_version);
    replica.serving.endpoint = InRole(replica.serving.endpoint, role, replica.model_version);
    serving[replica.model].push_back(fmt::format("{} {}", replica.id, static_cast<int>(role)));
    launched[replica.model].push_back(replica.serving.endpoint);
  }
  // A replica of another leader's term is not known to serve.
  const bool first = context_.shared && !std::exchange(published_once_, true);
  if (serving != published_ || first) {
    published_ = std::move(serving);
    env_.publish(launched);
  }
  for (Workload& replica : workloads_.all()) {
    const bool out = replica.kind == Kind::kReplica && replica.state == State::kSaving && replica.recorded &&
                     replica.saved;
    if (out && replica.serving.unpublished == conf::TimePoint()) replica.serving.unpublished = context_.now();
  }
}

std::vector<scheduler::autoscale::ReplicaView> Replicas::Views(std::string_view model) const {
  std::vector<scheduler::autoscale::ReplicaView> views;
  const config::ModelPolicy* const policy = env_.policy(std::string(model));
  for (const Workload& replica : workloads_.all()) {
    // A replica that takes another's place is no additional one.
    const Workload* const old = replica.replaces.empty() ? nullptr : workloads_.Find(replica.replaces);
    const bool in_place_of = old != nullptr && replica.state != State::kRunning && old->holds() &&
                             !old->ends() && old->state != State::kAsleep;
    if (replica.kind != Kind::kReplica || replica.model != model || replica.serving.set_aside ||
        replica.for_batches || in_place_of) {
      continue;
    }
    if (policy != nullptr && env_.role(*policy, replica.model_version) != VersionRole::kServes) continue;
    const std::optional<ReplicaPhase> phase = PhaseOf(replica);
    if (!phase) continue;
    // A start is not late because its weights are: their fetch has a limit of its own.
    const bool fetches = policy != nullptr && config::WeightsOf(*policy, replica.model_version) &&
                         replica.state == State::kStarting && !replica.serving.arrival.complete() &&
                         !replica.adopted;
    views.push_back(
        {replica.number, *phase, fetches ? context_.now() : BeginOfStart(replica), replica.in_flight()});
  }
  return views;
}

uint32_t Replicas::Count(std::string_view model, ReplicaState state) const {
  return static_cast<uint32_t>(std::ranges::count_if(workloads_.all(), [&](const Workload& replica) {
    return replica.kind == Kind::kReplica && replica.model == model && ReplicaStateOf(replica) == state;
  }));
}

void Replicas::ForEach(std::string_view model, const std::function<void(Workload&)>& fn) {
  for (Workload& replica : workloads_.all()) {
    if (replica.kind == Kind::kReplica && replica.model == model) fn(replica);
  }
}

void Replicas::SetAside(
    const std::function<std::optional<NodeWatch::Doubt>(const std::string& node)>& doubt_of) {
  const conf::TimePoint now = context_.now();
  std::vector<std::pair<std::string, std::string>> elsewhere;  // id, and why
  for (Workload& replica : workloads_.all()) {
    if (replica.kind != Kind::kReplica) continue;
    replica.serving.set_aside = false;
    if (!replica.holds() || replica.state == State::kDraining) continue;
    for (const Member& member : replica.members) {
      const std::string node = NodeOf(context_.cluster(), member.at);
      const std::optional<NodeWatch::Doubt> doubt = doubt_of(node);
      if (!doubt) continue;
      const bool comes = replica.state == State::kPlaced || replica.state == State::kStarting;
      if (comes && !member.started && !replica.busy) {
        elsewhere.emplace_back(replica.id, fmt::format("nothing starts on {}: {}", node, doubt->why));
        break;
      }
      const bool serves = replica.serving.load && Serves(replica);
      const bool mute = serves ? !Answers(replica, now) : doubt->ours;
      replica.serving.set_aside |= mute || now - doubt->since >= kPatience;
    }
  }
  for (auto& [id, why] : elsewhere) Retire(*workloads_.Find(id), std::move(why));
}

void Replicas::LeaveFaulty(const std::vector<plugins::launchers::DeviceFault>& faults) {
  if (faults.empty()) return;
  std::vector<std::pair<std::string, std::string>> leaving;  // id, and why
  for (const Workload& replica : workloads_.all()) {
    if (!replica.for_batches || !replica.holds() || replica.ends()) continue;
    const auto hits = [&](const plugins::launchers::DeviceFault& fault) {
      return std::ranges::any_of(replica.members, [&](const Member& member) {
        return (member.at.holding.devices >> fault.device & 1U) != 0 &&
               NodeOf(context_.cluster(), member.at) == fault.node;
      });
    };
    const auto fault = std::ranges::find_if(faults, hits);
    if (fault == faults.end()) continue;
    leaving.emplace_back(replica.id,
                         fmt::format("leaves device {} of {}: {}", fault->device, fault->node, fault->why));
  }
  for (auto& [id, why] : leaving) Retire(*workloads_.Find(id), std::move(why));
}

void Replicas::CountRuns(std::map<std::string, NodeWatch::Runs>& runs) const {
  const conf::TimePoint now = context_.now();
  for (const Workload& replica : workloads_.all()) {
    if (replica.kind != Kind::kReplica || replica.members.empty()) continue;
    const auto on = [&](const Member& member) -> NodeWatch::Runs& {
      return runs[NodeOf(context_.cluster(), member.at)];
    };
    const Member& leader = replica.members.front();
    if (Serves(replica) && replica.serving.load) {
      ++on(leader).serving;
      on(leader).mute += Answers(replica, now) ? 0 : 1;
    }
    if (replica.state != State::kStarting || now - replica.since <= kLate) continue;
    if (std::ranges::all_of(replica.members, &Member::running)) {
      ++on(leader).late;  // it does not answer
      continue;
    }
    for (const Member& member : replica.members) {
      if (member.started && !member.running) ++on(member).late;
    }
  }
}

std::vector<ReplicaStatus> Replicas::Rows() const {
  std::vector<ReplicaStatus> rows;
  for (const Workload& replica : workloads_.all()) {
    if (replica.kind != Kind::kReplica) continue;
    ReplicaStatus& row = rows.emplace_back();
    row.run = replica.id;
    row.model = replica.model;
    row.version = replica.model_version;
    row.state = ReplicaStateOf(replica);
    row.since = replica.since;
    row.wanted = replica.wanted;
    row.adopted = replica.adopted;
    row.in_flight = replica.in_flight();
    row.why = replica.state == State::kPending && !replica.unplaced.empty() ? replica.unplaced : replica.why;
    const WeightsArrival& arrival = replica.serving.arrival;
    if (replica.state == State::kStarting && arrival.members > 0 && !arrival.complete()) {
      row.arrival = arrival;
      row.why = arrival.of == 0 ? "its weights are being fetched"
                                : fmt::format("its weights are being fetched: {} of {} are there",
                                              plugins::weights::InBytes(arrival.bytes),
                                              plugins::weights::InBytes(arrival.of));
    }
    row.phases = replica.serving.phases;
    row.replaces = replica.replaces;
    row.moved = replica.moved;
    row.gain = replica.gain;
    if (replica.serving.endpoint) row.address = replica.serving.endpoint->url.authority();
    for (const Member& member : replica.members) {
      if (member.at.holding.node >= context_.cluster().nodes.size()) continue;
      plugins::launchers::DeviceGrant grant = GrantOf(context_.cluster(), member.at.holding);
      row.members.push_back({.run = member.run,
                             .node = std::move(grant.node),
                             .kind = std::move(grant.kind),
                             .devices = std::move(grant.devices),
                             .state = MemberStateOf(member),
                             .why = member.ended ? HowEnded(member) : member.why});
    }
  }
  return rows;
}

scheduler::Job Replicas::AskOf(const Workload& replica) const {
  const config::ModelPolicy* const policy = env_.policy(replica.model);
  scheduler::Job job;
  if (policy != nullptr) {
    const bool sleeps = replica.state == State::kAsleep && !replica.wants_to_wake;
    job = sleeps                ? config::AskAsleep(*policy)
          : replica.for_batches ? config::AskForBatches(*policy)
                                : config::AskOf(*policy);
    config::AskForUncut(job.roles.front().ask, context_.planning->uncut());
    const std::optional<config::Weights>& weights = config::WeightsOf(*policy, replica.model_version);
    if (weights && !sleeps) job.roles.front().ask.prefer.push_back(NodeWeights::Preference(weights->digest));
  } else {  // it is about to end; the planner has it until then
    job.work = scheduler::WorkClass::kInference;
    job.preemptible = false;
    job.roles = {{.name = "replica"}};
  }
  // A replica that has members keeps their number, whatever the policy says now.
  if (replica.holds())
    job.roles.front().count = job.roles.front().min_count = static_cast<uint32_t>(replica.members.size());
  if (replica.state == State::kAsleep) {
    for (const Member& member : replica.members)
      job.pinned.push_back(replica.wants_to_wake && member.home ? *member.home : member.at);
  }
  job.id = replica.id;
  job.submitted = replica.wanted;
  if (job.queue.empty()) job.queue = context_.planning->first_queue();
  return job;
}

bool Replicas::MayBePlaced(Workload& replica) {
  const config::ModelPolicy* const policy = env_.policy(replica.model);
  if (replica.state == State::kAsleep) return policy != nullptr;
  // Failures of one version do not keep the other from starting.
  const bool is_new = policy != nullptr && env_.role(*policy, replica.model_version) == VersionRole::kNew;
  replica.held = policy == nullptr || (!is_new && !env_.may_start(replica.model));
  if (policy != nullptr)
    replica.keyed =
        config::TemplateOf(*policy, replica.model_version).api_key == config::ReplicaKey::kGenerated;
  return !replica.held;
}

absl::StatusOr<plugins::launchers::RunSpec> Replicas::SpecOf(const Workload& replica, uint32_t rank) const {
  const config::ModelPolicy* const policy = env_.policy(replica.model);
  if (policy == nullptr) return absl::FailedPreconditionError("its model no longer has a policy");
  const config::ReplicaTemplate& by = config::TemplateOf(*policy, replica.model_version);
  plugins::launchers::RunSpec spec;
  spec.owner = replica.model;
  spec.command = rank > 0 && !by.worker_command.empty() ? by.worker_command : by.command;
  spec.env.reserve(by.env.size() + by.secret_env.size());
  for (const auto& [name, value] : by.env) spec.env.emplace_back(name, value);
  for (const auto& [name, value] : by.secret_env)
    spec.env.emplace_back(name, plugins::launchers::EscapePlaceholders(value.Reveal()));
  if (replica.keyed) {
    const conf::Secret key = context_.keys->Of(replica.id);
    spec.env.emplace_back(plugins::engines::kReplicaKeyVariable, std::string(key.Reveal()));
    const plugins::engines::EngineKey* const how = plugins::engines::FindEngineKey(Name(by.engine));
    if (how != nullptr && !how->variable.empty())
      spec.env.emplace_back(std::string(how->variable), std::string(key.Reveal()));
  }
  const scheduler::MemberAt& at = replica.members[rank].at;
  if (at.holding.node < context_.cluster().nodes.size())
    spec.weights =
        env_.weights_step(config::PolicyOfVersion(*policy, replica.model_version),
                          NodeOf(context_.cluster(), at), GrantOf(context_.cluster(), at.holding).kind);
  if (spec.weights) AddWeightsVariables(*spec.weights, Name(by.engine), spec.env);
  spec.directory = by.directory;
  spec.image = by.image;
  spec.pod = by.pod.json;
  spec.user = context_.users->replicas();
  spec.serves = rank == 0 || NamesPort(spec);
  return spec;
}

void Replicas::OnMembersUp(Workload& replica) {
  const config::ModelPolicy* const policy = env_.policy(replica.model);
  if (replica.serving.endpoint || policy == nullptr || replica.members.front().port == 0) return;
  const Member& leader = replica.members.front();
  replica.serving.endpoint =
      EndpointOf({.replica = replica.id, .host = leader.host, .port = leader.port, .keyed = replica.keyed},
                 config::TemplateOf(*policy, replica.model_version), *context_.keys);
  replica.serving.load = env_.load(replica.model + "@" + replica.id);
  context_.wake();
}

bool Replicas::Saves(const Workload& replica, Afterwards then) const {
  return (then == Afterwards::kEnds || then == Afterwards::kSleeps) && replica.serving.endpoint != nullptr;
}

void Replicas::Fail(Workload& replica, std::string why, Blame blame) {
  if (replica.state == State::kDraining) return;
  ++failures_;
  log::Warn("replica failed", {{"replica", replica.id}, {"state", Name(replica.state)}, {"why", why}});
  const conf::Duration served =
      replica.state == State::kRunning ? context_.now() - replica.since : conf::Duration();
  // A fault of the node says nothing about the model.
  const bool doubted = std::ranges::any_of(replica.members, [&](const Member& member) {
    return env_.doubted(NodeOf(context_.cluster(), member.at));
  });
  const config::ModelPolicy* const policy = env_.policy(replica.model);
  const bool is_new = policy != nullptr && env_.role(*policy, replica.model_version) == VersionRole::kNew;
  if (blame != Blame::kPlace && !doubted) {
    if (is_new) {
      env_.on_new_failure(replica.model, why);
    } else {
      env_.on_failure(replica.model, why, served);
    }
  }
  if (!replica.holds()) return Retire(replica, std::move(why));
  workloads_.End(replica, Afterwards::kFails, std::move(why));
}

std::string Replicas::ActionOf(const Workload& replica) const {
  switch (replica.state) {
    case State::kPlaced:
    case State::kStarting:
      if (replica.serving.woken) return "replica.wake";
      return replica.adopted ? "replica.adopt" : "replica.launch";
    case State::kRunning:
      return "replica.ready";
    case State::kAsleep:
      return replica.adopted ? "replica.adopt" : "replica.sleep";
    case State::kSaving:
      return "replica.drain";
    case State::kDraining:
      return "replica.stop";
    case State::kPending:
    case State::kStopped:
      break;
  }
  return {};
}

std::string Replicas::DetailOf(const Workload& replica, bool) const {
  nlohmann::ordered_json detail = {{"model", replica.model}, {"reason", replica.why}};
  if (!replica.model_version.empty()) detail["version"] = replica.model_version;
  nlohmann::ordered_json places = nlohmann::ordered_json::array();
  for (const Member& member : replica.members) {
    if (member.at.holding.node >= context_.cluster().nodes.size()) continue;
    const plugins::launchers::DeviceGrant grant = GrantOf(context_.cluster(), member.at.holding);
    nlohmann::ordered_json place = {{"node", grant.node}};
    if (!grant.devices.empty()) {
      place["kind"] = grant.kind;
      place["devices"] = grant.devices;
    }
    places.push_back(std::move(place));
  }
  if (replica.for_batches) detail["for_batches"] = true;
  const bool has_started = replica.state == State::kRunning && !replica.serving.continues;
  if (has_started && replica.serving.phases.start() > conf::Duration::zero()) {
    nlohmann::ordered_json phases = nlohmann::ordered_json::object();
    for (size_t i = 0; i < kStartPhases; ++i)
      phases[fmt::format("{}_ms", kStartPhaseNames[i])] = conf::ToMillis(replica.serving.phases.took[i]);
    detail["phases"] = std::move(phases);
    if (const uint64_t bytes = replica.serving.phases.transferred; bytes > 0) detail["weights_bytes"] = bytes;
    if (const uint64_t bytes = replica.serving.phases.neighbours; bytes > 0)
      detail["weights_bytes_of_neighbours"] = bytes;
  }
  if (!replica.replaces.empty()) {
    detail["replaces"] = replica.replaces;
    detail["gain"] = replica.gain;
  }
  if (places.size() == 1) {
    detail.update(places.front());
  } else if (!places.empty()) {
    detail["members"] = std::move(places);
  }
  return conf::DumpJson(detail);
}

}  // namespace gateway::control
