#include "gateway/replicas/scrapes.h"

#include <algorithm>
#include <utility>

#include "gateway/log.h"
#include "gateway/net/clock.h"
#include "gateway/replicas/ask_replica.h"

namespace gateway {
namespace {

using plugins::engines::EngineAdapter;
using plugins::engines::EngineReport;
using plugins::engines::EngineSource;

constexpr conf::Duration kScrapeTick = std::chrono::milliseconds(100);
constexpr conf::Duration kBusy = std::chrono::seconds(1);
constexpr conf::Duration kIdle = std::chrono::seconds(5);
constexpr conf::Duration kLongest = std::chrono::seconds(60);  // between scrapes of one that does not answer
constexpr conf::Duration kTimeout = std::chrono::seconds(2);
constexpr size_t kMaxAnswer = size_t{4} << 20;
constexpr uint32_t kMaxScrapes = 32;
constexpr uint32_t kGone = 3;  // scrapes without an answer: its loaded adapters are taken to be lost
// The index counts in blocks of bytes, engines in tokens; text has about four bytes a token.
constexpr double kTokensPerBlock = 64;

}  // namespace

void Scrapes::Start(std::shared_ptr<const Runtime> runtime) {
  runtime_ = std::move(runtime);
  absl::flat_hash_map<std::string, Target> before = std::exchange(targets_, {});
  for (const router::Replica& replica : runtime_->routes().replicas()) {
    const EngineAdapter* const adapter = plugins::engines::FindEngineAdapter(replica.spec.engine);
    if (adapter == nullptr) continue;
    const std::string& key = runtime_->replica(replica.id).pool_key;
    Target& target = targets_[key];
    if (target.replicas.empty()) {
      if (const auto known = before.find(key); known != before.end()) target = known->second;
      target.replicas.clear();
      target.asked = false;
    }
    target.adapter = adapter;
    target.replicas.push_back(replica.id);
  }
  SetAfter(conf::Duration::zero());
}

void Scrapes::Stop() {
  Clear();
  runtime_.reset();
  targets_.clear();
  fetches_.Abort();
}

void Scrapes::OnAlarm() {
  if (!runtime_) return;
  const conf::TimePoint now = net::Now();
  for (auto& [key, target] : targets_) {
    if (under_way_ == kMaxScrapes) break;
    if (target.asked || target.due > now) continue;
    target.asked = true;
    ++under_way_;
    loop_.tasks.Spawn(Scrape(runtime_, key));
  }
  SetAfter(kScrapeTick);
}

net::Task<void> Scrapes::Scrape(std::shared_ptr<const Runtime> runtime, std::string key) {
  const Target asked = targets_.at(key);
  const EngineReport report = co_await Ask(runtime->replica(asked.replicas.front()), *asked.adapter);
  --under_way_;
  if (runtime != runtime_) co_return;  // a reload has replaced the targets
  Target& target = targets_.at(key);
  target.asked = false;
  target.failures = report.running ? 0 : target.failures + 1;
  target.due = net::Now() + Pause(*runtime, target);
  if (report.running) Apply(*runtime, target, report);
  if (target.failures == kGone) {
    for (const ReplicaId id : target.replicas) runtime->load()[id].adapters.Forget(net::Now());
  }
}

net::Task<EngineReport> Scrapes::Ask(const ReplicaRuntime& replica, const EngineAdapter& adapter) {
  EngineReport report;
  for (const EngineSource& source : adapter.sources) {
    net::http::FetchRequest request = AskReplica(replica, source.path, kTimeout);
    request.max_response_bytes = kMaxAnswer;
    const absl::StatusOr<net::http::FetchResponse> answer =
        co_await net::http::Fetch(loop_, std::move(request), &fetches_);
    if (absl::IsCancelled(answer.status())) break;
    if (answer.ok() && answer->status == 200) report.FillFrom(source.read(answer->body));
    if (report.complete()) break;
  }
  co_return report;
}

void Scrapes::Apply(const Runtime& runtime, const Target& target, const EngineReport& report) {
  const conf::TimePoint now = net::Now();
  std::vector<std::string> in_use = report.lora_running;
  in_use.insert(in_use.end(), report.lora_waiting.begin(), report.lora_waiting.end());
  for (const ReplicaId id : target.replicas) {
    router::ReplicaState& state = runtime.load()[id];
    router::EngineLimits limits;
    if (report.max_running)
      limits.max_running = static_cast<uint32_t>(std::clamp(*report.max_running, 1.0, 1e6));
    if (report.kv_tokens) {
      limits.kv_tokens = static_cast<int64_t>(std::min(*report.kv_tokens, 1e12));
      const double blocks = std::clamp(*report.kv_tokens / kTokensPerBlock, 1.0, 1e9);
      if (state.member) prefixes_.SetCapacity(*state.member, static_cast<uint32_t>(blocks));
    }
    state.adapters.OnReport(
        {.in_use = in_use, .slots = report.max_lora.value_or(0), .started_at = report.started_at.value_or(0)},
        now);
    state.engine.Configure(limits);
    state.engine.OnTelemetry({.running = *report.running,
                              .waiting = report.waiting.value_or(0),
                              .kv_use = report.kv_use.value_or(0)},
                             state.engine.charged(now), now);
  }
}

conf::Duration Scrapes::Pause(const Runtime& runtime, const Target& target) {
  const bool busy = std::ranges::any_of(target.replicas,
                                        [&](ReplicaId id) { return runtime.load()[id].load.requests() > 0; });
  conf::Duration pause = busy ? kBusy : kIdle;
  for (uint32_t i = 0; i < std::min(target.failures, 6u); ++i) pause = std::min(2 * pause, kLongest);
  // Up to a fifth more or less, so that several gateways do not scrape at the same time.
  const double jitter = 0.8 + 0.4 * rng_.Double();
  return std::chrono::duration_cast<conf::Duration>(pause * jitter);
}

}  // namespace gateway
