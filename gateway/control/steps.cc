// What is done for one replica after the other: each step is a task of its own, one at a time for each
// replica, and looks again at where the replica stands after everything that it waited for.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "conf/text.h"
#include "gateway/control/loop.h"
#include "gateway/log.h"
#include "gateway/net/clock.h"
#include "gateway/net/http/fetch.h"
#include "gateway/net/off_loop.h"

namespace gateway::control {
namespace {

using plugins::launchers::RunSpec;
using plugins::launchers::RunState;
using plugins::launchers::RunStatus;

constexpr conf::Duration kStepRetry = std::chrono::seconds(1);
constexpr conf::Duration kProbeTimeout = std::chrono::seconds(2);
constexpr conf::Duration kShortestProbe = std::chrono::milliseconds(50);
constexpr conf::Duration kLongestProbe = std::chrono::seconds(1);
constexpr conf::Duration kStopGrace = std::chrono::seconds(10);
constexpr conf::Duration kMissing = std::chrono::seconds(10);  // before it is taken to be gone
constexpr size_t kMaxSteps = 64;                               // at a time

std::string_view ActionOf(const Replica& replica) {
  switch (replica.state) {
    case State::kWaiting:
    case State::kLaunching:
      return replica.adopted ? "replica.adopt" : "replica.launch";
    case State::kWarming:
      return "replica.warm";
    case State::kReady:
      return "replica.ready";
    case State::kDraining:
      return "replica.drain";
    case State::kStopping:
      break;
  }
  return "replica.stop";
}

std::string DetailOf(const Replica& replica) {
  nlohmann::ordered_json detail = {{"model", replica.model}, {"reason", replica.why}};
  if (!replica.grant.node.empty()) detail["node"] = replica.grant.node;
  if (!replica.grant.devices.empty()) {
    detail["kind"] = replica.grant.kind;
    detail["devices"] = replica.grant.devices;
  }
  return detail.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

RunSpec SpecOf(const Replica& replica, const config::ReplicaTemplate& by) {
  RunSpec spec;
  spec.id = replica.run;
  spec.owner = replica.model;
  spec.grant = replica.grant;
  spec.command = by.command;
  spec.env.reserve(by.env.size() + by.secret_env.size());
  for (const auto& [name, value] : by.env) spec.env.emplace_back(name, value);
  for (const auto& [name, value] : by.secret_env) spec.env.emplace_back(name, std::string(value.Reveal()));
  spec.directory = by.directory;
  spec.serves = true;
  return spec;
}

std::string WhyEnded(const RunStatus& run) {
  std::string how = run.exit_code ? fmt::format("it exited with {}", *run.exit_code)
                    : run.signal  ? fmt::format("it was ended by signal {}", *run.signal)
                                  : "it ended";
  if (!run.why.empty()) how += ": " + run.why;
  if (!run.log.empty()) how += fmt::format(" (its output: {})", run.log);
  return how;
}

std::shared_ptr<const config::Endpoint> EndpointOf(const Replica& replica, const config::ReplicaTemplate& by,
                                                   const RunStatus& run) {
  auto endpoint = std::make_shared<config::Endpoint>();
  endpoint->name = replica.run;
  endpoint->url = {.scheme = "http", .host = run.host, .port = run.port, .path = ""};
  endpoint->engine = by.engine;
  endpoint->model = by.model;
  endpoint->apis = config::DefaultApis(by.engine);
  return endpoint;
}

}  // namespace

bool ControlLoop::NeedsStep(const Replica& replica, conf::TimePoint now) const {
  if (replica.busy || now < replica.next_step) return false;
  switch (replica.state) {
    case State::kLaunching:
      return !replica.recorded || !replica.started;
    case State::kReady:
    case State::kDraining:
      return !replica.recorded;
    case State::kWarming:
    case State::kStopping:
      return true;
    case State::kWaiting:
      break;
  }
  return false;
}

void ControlLoop::TakeSteps(conf::TimePoint now) {
  std::vector<uint32_t> due;  // a step may remove its replica at once
  for (const Replica& replica : fleet_.all()) {
    if (NeedsStep(replica, now)) due.push_back(replica.id);
  }
  for (const uint32_t id : due) {
    if (under_way_ < kMaxSteps) loop_.tasks.Spawn(Step(id));
  }
}

net::Task<void> ControlLoop::Step(uint32_t id) {
  Replica& begun = *fleet_.Find(id);
  begun.busy = true;
  ++under_way_;
  switch (begun.state) {
    case State::kLaunching:
      co_await Launch(id);
      break;
    case State::kWarming:
      co_await Probe(id);
      break;
    case State::kReady:
    case State::kDraining:
      (void)co_await Record(id);
      break;
    case State::kStopping:
      co_await Stop(id);
      break;
    case State::kWaiting:
      break;
  }
  --under_way_;
  if (Replica* const replica = fleet_.Find(id)) replica->busy = false;
  if (!closing_) Wake();
}

// False: it could not be recorded, or something else is wanted of the replica by now.
net::Task<bool> ControlLoop::Record(uint32_t id) {
  const Replica& replica = *fleet_.Find(id);
  const State state = replica.state;
  const conf::TimePoint since = replica.since;
  ledger::Event event;
  event.kind = ledger::Kind::kAction;
  event.action = ActionOf(replica);
  event.actor = "control";
  event.subject = replica.run;
  event.detail = DetailOf(replica);
  const absl::Status recorded = co_await around_.record(std::move(event));
  Replica* const now = fleet_.Find(id);
  if (now == nullptr || now->state != state || now->since != since) co_return false;
  now->recorded = recorded.ok();
  if (!recorded.ok()) {
    log::Error("action not recorded, and not taken; it is tried again",
               {{"replica", now->run}, {"why", conf::Std(recorded.message())}});
    now->next_step = net::Now() + kStepRetry;
  }
  co_return recorded.ok();
}

// What has changed up to now is on disk when it returns.
net::Task<absl::Status> ControlLoop::Save() {
  const uint64_t mine = ++changes_;
  if (!co_await saves_.Take()) co_return absl::ResourceExhaustedError("too many wait for the disk");
  absl::Status saved;
  if (saved_ < mine) {
    const uint64_t covers = changes_;
    std::vector<FleetEntry> entries;
    for (const Replica& replica : fleet_.all()) {
      if (!replica.grant.node.empty())
        entries.push_back({replica.run, replica.model, replica.grant, replica.launched});
    }
    saved = co_await net::OffLoop(loop_, [&] { return WriteFleet(around_.file, entries); });
    if (saved.ok()) saved_ = std::max(saved_, covers);
  }
  saves_.Give();
  co_return saved;
}

net::Task<void> ControlLoop::Launch(uint32_t id) {
  if (!fleet_.Find(id)->recorded && !co_await Record(id)) co_return;
  if (fleet_.Find(id)->adopted) co_return;
  const absl::Status saved = co_await Save();
  Replica* replica = fleet_.Find(id);
  if (replica->state != State::kLaunching) co_return;
  if (!saved.ok()) {
    log::Error("replica not launched: the fleet's file cannot be written; it is tried again",
               {{"replica", replica->run}, {"why", conf::Std(saved.message())}});
    replica->next_step = net::Now() + kStepRetry;
    co_return;
  }
  if (const absl::Status may = co_await MayStartOn(replica->grant.node); !may.ok()) {
    replica = fleet_.Find(id);
    replica->last_probe = conf::Std(may.message());
    replica->next_step = net::Now() + kStepRetry;
    co_return;
  }
  replica = fleet_.Find(id);
  if (replica->state != State::kLaunching) co_return;
  replica->asked = true;
  ++launches_;
  log::Info("replica launched",
            {{"replica", replica->run}, {"node", replica->grant.node}, {"why", replica->why}});
  const absl::Status started = co_await launcher_->Start(SpecOf(*replica, *PoolOf(*replica)->policy.replica));
  replica = fleet_.Find(id);
  next_look_ = {};
  replica->started = started.ok();
  if (started.ok() || replica->state != State::kLaunching) co_return;
  if (absl::IsUnavailable(started)) {
    replica->last_probe = conf::Std(started.message());
    replica->next_step = net::Now() + kStepRetry;
  } else {
    Fail(*replica, std::string(conf::Std(started.message())), net::Now());
  }
}

net::Task<void> ControlLoop::Probe(uint32_t id) {
  const Replica& probed = *fleet_.Find(id);
  net::http::FetchRequest request;
  request.url = {false, probed.endpoint->url.host, std::to_string(probed.endpoint->url.port),
                 PoolOf(probed)->policy.replica->ready.path, ""};
  request.timeout = kProbeTimeout;
  const absl::StatusOr<net::http::FetchResponse> answer =
      co_await net::http::Fetch(loop_, std::move(request), &fetches_);
  Replica* const replica = fleet_.Find(id);
  if (replica->state != State::kWarming) co_return;
  const conf::TimePoint now = net::Now();
  if (answer.ok() && answer->status < 300) {
    const conf::Duration took = now - replica->launched;
    if (!replica->adopted) cold_starts_.Add(replica->model, replica->grant.kind, took);
    log::Info("replica ready", {{"replica", replica->run}, {"seconds", conf::ToSeconds(took)}});
    fleet_.Enter(*replica, State::kReady,
                 replica->adopted
                     ? "it answers"
                     : fmt::format("it answers, {:.1f}s after its launch", conf::ToSeconds(took)),
                 now);
    co_return;
  }
  replica->last_probe =
      answer.ok() ? fmt::format("{} answers {}", PoolOf(*replica)->policy.replica->ready.path, answer->status)
                  : std::string(conf::Std(answer.status().message()));
  replica->next_step = now + std::clamp((now - replica->launched) / 20, kShortestProbe, kLongestProbe);
}

net::Task<void> ControlLoop::Stop(uint32_t id) {
  // What was never asked for needs no record.
  if (fleet_.Find(id)->asked && !fleet_.Find(id)->recorded && !co_await Record(id)) co_return;
  const std::string run = fleet_.Find(id)->run;
  if (fleet_.Find(id)->asked) {
    if (!fleet_.Find(id)->ended) {
      const absl::Status told = co_await launcher_->Stop(run, kStopGrace);
      if (!told.ok())
        log::Warn("replica not stopped; it is tried again",
                  {{"replica", run}, {"why", conf::Std(told.message())}});
      fleet_.Find(id)->next_step = net::Now() + kStepRetry;
      next_look_ = {};
      co_return;
    }
    HeldBy all_of_its_model{.model = fleet_.Find(id)->model};
    const bool metered = co_await metering_.UpToNow(std::move(all_of_its_model));
    const absl::Status forgotten =
        metered ? co_await launcher_->Forget(run) : absl::UnavailableError("what it held is not on disk");
    if (!forgotten.ok()) {
      fleet_.Find(id)->next_step = net::Now() + kStepRetry;
      co_return;
    }
  }
  log::Info("replica gone", {{"replica", run}, {"why", fleet_.Find(id)->why}});
  planning_.Leave(run, net::Now());
  fleet_.Remove(id);
  if (const absl::Status saved = co_await Save(); !saved.ok())
    log::Error("the fleet's file cannot be written", {{"why", conf::Std(saved.message())}});
}

net::Task<void> ControlLoop::Look() {
  looking_ = true;
  ++under_way_;
  absl::StatusOr<std::vector<RunStatus>> runs = co_await launcher_->List();
  --under_way_;
  looking_ = false;
  trouble_ = runs.ok() ? "" : std::string(conf::Std(runs.status().message()));
  if (runs.ok()) {
    looked_ = true;
    Compare(*runs, net::Now());
  }
  if (!closing_) Wake();
}

// The launcher knows nothing of it: it has gone, or was never there.
void ControlLoop::Miss(Replica& replica, conf::TimePoint now) {
  if (replica.state == State::kStopping) {
    if (replica.busy) return;  // it may be asked for just now
    replica.ended = true;
    replica.next_step = {};
    return;
  }
  if (!replica.started) return;
  if (!replica.missing) replica.missing = now;
  if (now - *replica.missing <= kMissing) return;
  replica.ended = true;
  Fail(replica, "it is not there any more", now);
}

// What there is with what there should be.
void ControlLoop::Compare(const std::vector<RunStatus>& runs, conf::TimePoint now) {
  std::map<std::string_view, const RunStatus*> by_id;
  for (const RunStatus& run : runs) by_id.emplace(run.id, &run);
  for (Replica& replica : fleet_.all()) {
    const auto found = by_id.find(replica.run);
    if (found == by_id.end()) {
      Miss(replica, now);
      continue;
    }
    const RunStatus& run = *found->second;
    by_id.erase(found);
    replica.missing.reset();
    if (run.state == RunState::kEnded) {
      replica.ended = true;
      replica.next_step = {};
      if (replica.state == State::kDraining) {
        fleet_.Enter(replica, State::kStopping, WhyEnded(run), now);
      } else {
        Fail(replica, WhyEnded(run), now);
      }
    } else if (replica.state == State::kLaunching && run.state == RunState::kRunning && run.port != 0) {
      replica.endpoint = EndpointOf(replica, *PoolOf(replica)->policy.replica, run);
      replica.load = around_.replicas->Get(replica.model + "@" + replica.run);
      fleet_.Enter(replica, State::kWarming, replica.why, now);
    } else if (replica.state == State::kLaunching && !run.why.empty()) {
      replica.last_probe = run.why;
    }
  }
  for (const auto& [id, run] : by_id) {
    if (IsReplicaRun(id)) FoundOrphan(*run);
  }
  for (const RunStatus& run : jobs_.Observe(runs)) FoundOrphan(run);
}

void ControlLoop::FoundOrphan(const RunStatus& run) {
  if (orphans_.insert(run.id).second) loop_.tasks.Spawn(EndOrphan(run.id, run.state == RunState::kEnded));
}

// A run that is a replica's or a job's by its name, and of which nothing is known: its devices may be given
// to others.
net::Task<void> ControlLoop::EndOrphan(std::string run, bool ended) {
  ++under_way_;
  ledger::Event event;
  event.kind = ledger::Kind::kAction;
  event.action = IsReplicaRun(run) ? "replica.stop" : "job.stop";
  event.actor = "control";
  event.subject = run;
  event.detail = R"({"reason":"nobody knows what it was started for"})";
  if (ended || (co_await around_.record(std::move(event))).ok()) {
    if (!ended) (co_await launcher_->Stop(run, kStopGrace)).IgnoreError();
    (co_await launcher_->Forget(run)).IgnoreError();  // refused while it ends: the next look comes by
  }
  orphans_.erase(run);
  --under_way_;
}

}  // namespace gateway::control
