#include "gateway/control/weights/prefetches.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "conf/text.h"
#include "gateway/log.h"
#include "plugins/weights/progress.h"

namespace gateway::control {
namespace {

using plugins::launchers::RunState;
using plugins::launchers::RunStatus;

constexpr conf::Duration kLookEvery = std::chrono::seconds(2);
constexpr conf::Duration kAhead = std::chrono::hours(1);  // how far a forecast looks
constexpr conf::Duration kAfterFailure = std::chrono::minutes(5);
constexpr conf::Duration kNeverSeen = std::chrono::seconds(30);
constexpr conf::Duration kFetchGrace = std::chrono::seconds(5);
constexpr int64_t kFetchCpuMilli = 1000;
constexpr int64_t kFetchMemoryMib = 1024;

}  // namespace

std::string PrefetchRunId(std::string_view model, int64_t stamp) {
  constexpr size_t kLongestName = 40;
  std::string name(model.substr(0, kLongestName));
  for (char& c : name) {
    const bool fits = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-';
    if (!fits) c = '-';
  }
  return fmt::format("w-{}-{:x}", name, stamp);
}

bool IsPrefetchRun(std::string_view run) {
  return run.starts_with("w-");
}

std::vector<std::string> ChoosePrefetchNodes(const std::vector<StartPlace>& places, uint32_t wanted,
                                             uint32_t holders) {
  std::vector<std::string> out;
  for (const bool free : {true, false}) {
    for (const StartPlace& place : places) {
      if (holders + out.size() >= wanted) return out;
      if (place.free == free && !place.holds_weights) out.push_back(place.node);
    }
  }
  return out;
}

// A time that passed while no gateway ran is skipped: the nodes keep their earlier weights.
bool Prefetches::IsDue(const config::ModelPolicy& policy, conf::TimePoint now) {
  const config::Prefetch& prefetch = *policy.weights->prefetch;
  if (prefetch.on_demand && env_.short_of_devices(policy.model())) return true;
  conf::TimePoint& fired = fired_.try_emplace(policy.model(), began_).first->second;
  for (const config::PrefetchTime& time : prefetch.at) {
    const std::optional<conf::TimePoint> last = time.cron.LastFiring(now, time.zone);
    if (!last || *last <= fired) continue;
    fired = *last;
    due_until_[policy.model()] = now + policy.weights->timeout;
  }
  const auto due = due_until_.find(policy.model());
  return due != due_until_.end() && now < due->second;
}

uint32_t Prefetches::NodesWanted(const config::ModelPolicy& policy, conf::TimePoint now) {
  const config::Prefetch& prefetch = *policy.weights->prefetch;
  uint32_t nodes = IsDue(policy, now) ? prefetch.nodes : 0;
  if (prefetch.forecast) {
    scheduler::autoscale::DailyPeaks& peaks = peaks_[policy.model()];
    peaks.Observe(now, env_.wanted(policy.model()));
    nodes = std::max(nodes, peaks.Forecast(now, kAhead));
  }
  return nodes;
}

scheduler::autoscale::DailyPeaks::Memory Prefetches::PeaksOf(const std::string& model) const {
  const auto found = peaks_.find(model);
  return found == peaks_.end() ? scheduler::autoscale::DailyPeaks::Memory() : found->second.memory();
}

void Prefetches::Tick() {
  const conf::TimePoint now = context_.now();
  if (now < next_) return;
  next_ = now + kLookEvery;
  std::erase_if(not_before_, [&](const auto& one) { return one.second <= now; });
  for (const config::ModelPolicy* const policy : env_.policies()) {
    uint32_t nodes = NodesWanted(*policy, now);
    if (nodes == 0) continue;
    std::vector<StartPlace> places = env_.places(*policy);
    // The first node fetches from the source, the others then from that node.
    if (env_.asks_neighbours() && std::ranges::none_of(places, &StartPlace::holds_weights)) nodes = 1;
    uint32_t holders = 0;
    for (StartPlace& place : places) {
      const bool fetches = std::ranges::any_of(fetches_, [&](const auto& one) {
        return one.second.node == place.node && one.second.model == policy->model();
      });
      holders += place.holds_weights || fetches ? 1 : 0;
      if (fetches) place.holds_weights = true;
    }
    // A node that already fetches, or has just failed to, is skipped.
    std::erase_if(places, [&](const StartPlace& place) {
      if (place.holds_weights) return false;
      return not_before_.contains({policy->model(), place.node}) ||
             std::ranges::any_of(fetches_, [&](const auto& one) { return one.second.node == place.node; });
    });
    for (const std::string& node : ChoosePrefetchNodes(places, nodes, holders)) {
      if (fetches_.size() >= kMost) return;
      Begin(*policy, *std::ranges::find(places, node, &StartPlace::node), now);
    }
  }
}

void Prefetches::Begin(const config::ModelPolicy& policy, const StartPlace& place, conf::TimePoint now) {
  std::optional<plugins::launchers::WeightsStep> step = env_.step(policy, place);
  if (!step) return;
  last_stamp_ = std::max(last_stamp_ + 1, conf::ToUnixMicros(now));
  plugins::launchers::RunSpec spec;
  spec.id = PrefetchRunId(policy.model(), last_stamp_);
  spec.owner = policy.model();
  spec.grant = {.node = place.node, .cpu_milli = kFetchCpuMilli, .memory_mib = kFetchMemoryMib};
  spec.image = step->image;
  spec.weights = std::move(step);
  spec.user = context_.users->replicas();
  spec.limit = policy.weights->timeout;
  spec.epoch = context_.epoch;
  fetches_[spec.id] = {.model = policy.model(), .node = place.node, .since = now, .busy = true};
  std::string run = spec.id;
  context_.spawn(Start(std::move(run), std::move(spec)));
}

net::Task<void> Prefetches::Start(std::string run, plugins::launchers::RunSpec spec) {
  ++under_way_;
  ledger::Event event;
  event.kind = ledger::Kind::kAction;
  event.action = "weights.prefetch";
  event.actor = "control";
  event.subject = run;
  event.detail =
      nlohmann::ordered_json{
          {"model", spec.owner}, {"node", spec.grant.node}, {"digest", spec.weights->digest}}
          .dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
  absl::Status status = co_await context_.record(std::move(event));
  if (status.ok()) status = co_await context_.confirm();
  if (status.ok()) status = co_await context_.launcher->Start(std::move(spec));
  --under_way_;
  const auto found = fetches_.find(run);
  if (found == fetches_.end()) co_return;
  found->second.busy = false;
  if (status.ok()) co_return;
  found->second.why = std::string(conf::Std(status.message()));
  NoteFailure(found->second);
  fetches_.erase(found);
}

void Prefetches::NoteFailure(const Fetch& fetch) {
  ++failed_;
  not_before_[{fetch.model, fetch.node}] = context_.now() + kAfterFailure;
  log::Warn("weights were not prefetched",
            {{"model", fetch.model}, {"node", fetch.node}, {"why", fetch.why}});
}

void Prefetches::Update(const std::vector<RunStatus>& runs) {
  const conf::TimePoint now = context_.now();
  std::set<std::string> seen;
  for (const RunStatus& run : runs) {
    if (!IsPrefetchRun(run.id)) continue;
    seen.insert(run.id);
    const auto [found, is_new] = fetches_.try_emplace(run.id);
    Fetch& fetch = found->second;
    if (is_new) fetch = {.model = run.owner, .node = run.grant.node, .since = run.since};
    fetch.log = run.log;
    fetch.listed = true;
    fetch.why = run.why;
    if (fetch.busy) continue;
    const auto policies = env_.policies();
    const auto policy = std::ranges::find_if(
        policies, [&](const config::ModelPolicy* one) { return one->model() == fetch.model; });
    const bool wanted = policy != policies.end() && now - fetch.since < (*policy)->weights->timeout;
    if (run.state != RunState::kEnded && (wanted || run.state == RunState::kStopping)) continue;
    fetch.busy = true;
    context_.spawn(Conclude(run));
  }
  // The run is gone, or it was started and never listed.
  std::erase_if(fetches_, [&](const auto& one) {
    const Fetch& fetch = one.second;
    return !fetch.busy && !seen.contains(one.first) && (fetch.listed || now - fetch.since > kNeverSeen);
  });
}

// The run has ended, or it is no longer wanted and is ended now.
net::Task<void> Prefetches::Conclude(RunStatus run) {
  ++under_way_;
  if (run.state != RunState::kEnded) {
    (void)co_await context_.launcher->Stop(run.id, kFetchGrace);
  } else {
    const std::string text = co_await env_.read(run.id, run.log);
    const auto progress = plugins::weights::LastProgress(text);
    const bool fetched = progress && progress->phase == plugins::weights::FetchPhase::kFetched;
    if (fetched) {
      env_.listed(run.grant.node, progress->holds, progress->at);
      for (const std::string& note : progress->notes)
        log::Warn("weights came from elsewhere", {{"run", run.id}, {"node", run.grant.node}, {"why", note}});
    }
    const auto found = fetches_.find(run.id);
    if (found != fetches_.end() && !std::exchange(found->second.ended, true)) {
      if (run.exit_code == 0) {
        ++done_;
      } else {
        found->second.why = progress && !progress->why.empty() ? progress->why
                            : run.why.empty()                  ? "it was ended"
                                                               : run.why;
        NoteFailure(found->second);
      }
    }
    const absl::Status forgotten = co_await context_.launcher->Forget(run.id);
    if (forgotten.ok()) fetches_.erase(run.id);
  }
  --under_way_;
  if (const auto found = fetches_.find(run.id); found != fetches_.end()) found->second.busy = false;
}

std::vector<PrefetchStatus> Prefetches::Rows() const {
  std::vector<PrefetchStatus> rows;
  rows.reserve(fetches_.size());
  for (const auto& [run, fetch] : fetches_) {
    rows.push_back(
        {.run = run, .model = fetch.model, .node = fetch.node, .since = fetch.since, .why = fetch.why});
  }
  return rows;
}

}  // namespace gateway::control
