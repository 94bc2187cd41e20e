#include "router/engine_signals.h"

#include <algorithm>
#include <cmath>

namespace router {
namespace {

constexpr auto kRelaxed = std::memory_order_relaxed;

// Each first token weighs this much less with every later one: the meter follows some two hundred of them.
// With thirty, noise in the rates of equal replicas costs 4 % of the time to the first token.
constexpr double kKept = 0.995;
// A measured rate is kept within these, so that no odd moment blinds the router to a replica.
constexpr double kMinRate = 10;
constexpr double kMaxRate = 1e7;

double Sane(double value) {
  return std::isfinite(value) && value > 0 ? value : 0;
}

}  // namespace

void EngineSignals::Configure(const EngineLimits& limits) {
  max_running_.store(std::max(1u, limits.max_running), kRelaxed);
  kv_tokens_.store(static_cast<double>(std::max<int64_t>(0, limits.kv_tokens)), kRelaxed);
  stale_after_.store(limits.stale_after.count(), kRelaxed);
  const std::lock_guard lock(meter_);
  if (computing_seconds_ == 0) {
    prefill_rate_.store(std::clamp(Sane(limits.first_prefill_rate), kMinRate, kMaxRate), kRelaxed);
  }
  if (token_requests_ == 0) pace_.store(Sane(limits.first_pace), kRelaxed);
}

EngineSignals::Charged EngineSignals::charged() const {
  return {requests_.load(kRelaxed), waiting_.load(kRelaxed), context_.load(kRelaxed)};
}

void EngineSignals::OnTelemetry(const Telemetry& telemetry, const Charged& then, conf::TimePoint now) {
  const double running = Sane(telemetry.running);
  const double waiting = Sane(telemetry.waiting);
  scraped_running_.store(running, kRelaxed);
  scraped_waiting_.store(waiting, kRelaxed);
  scraped_kv_.store(std::min(1.0, Sane(telemetry.kv_use)), kRelaxed);
  foreign_requests_.store(std::max(0.0, running + waiting - static_cast<double>(then.requests)), kRelaxed);
  foreign_waiting_.store(std::max(0.0, waiting - static_cast<double>(then.waiting)), kRelaxed);
  context_then_.store(then.context, kRelaxed);
  scraped_at_.store(Nanos(now), kRelaxed);
}

void EngineSignals::Begin(const Work& work, conf::TimePoint now) {
  if (requests_.fetch_add(1, kRelaxed) == 0) OnToken(now);
  context_.fetch_add(work.context, kRelaxed);
  if (work.unseen) return;
  if (waiting_.fetch_add(1, kRelaxed) == 0) computing_since_.store(Nanos(now), kRelaxed);
  backlog_.fetch_add(work.uncached, kRelaxed);
}

void EngineSignals::FirstToken(const Work& work, conf::TimePoint now) {
  waiting_.fetch_sub(1, kRelaxed);
  backlog_.fetch_sub(work.uncached, kRelaxed);
  OnToken(now);
  const std::lock_guard lock(meter_);
  const int64_t since = computing_since_.exchange(Nanos(now), kRelaxed);
  const double seconds = static_cast<double>(std::max<int64_t>(0, Nanos(now) - since)) * 1e-9;
  computed_tokens_ = computed_tokens_ * kKept + static_cast<double>(work.uncached);
  computing_seconds_ = computing_seconds_ * kKept + seconds;
  if (computing_seconds_ <= 0 || computed_tokens_ <= 0) return;
  prefill_rate_.store(std::clamp(computed_tokens_ / computing_seconds_, kMinRate, kMaxRate), kRelaxed);
}

// Both sums move together, so that the pace stays when the load changes: a pace without the number of
// requests would send everybody to where the last answers happened to be quick.
void EngineSignals::LearnPace(double token_time) {
  const auto requests = static_cast<double>(std::max<int64_t>(1, requests_.load(kRelaxed)));
  const std::lock_guard lock(meter_);
  token_seconds_ = token_seconds_ * kKept + Sane(token_time);
  token_requests_ = token_requests_ * kKept + requests;
  pace_.store(token_seconds_ / token_requests_, kRelaxed);
}

void EngineSignals::End(const Work& work, bool first_token) {
  requests_.fetch_sub(1, kRelaxed);
  context_.fetch_sub(work.context, kRelaxed);
  if (first_token || work.unseen) return;
  waiting_.fetch_sub(1, kRelaxed);
  backlog_.fetch_sub(work.uncached, kRelaxed);
}

Signals EngineSignals::Read(conf::TimePoint now) const {
  Signals s;
  const Charged own = charged();
  const int64_t scraped_at = scraped_at_.load(kRelaxed);
  const bool known = scraped_at > 0 && Nanos(now) - scraped_at <= stale_after_.load(kRelaxed);
  const double kv_tokens = kv_tokens_.load(kRelaxed);
  s.requests = static_cast<double>(own.requests) + (known ? foreign_requests_.load(kRelaxed) : 0);
  const auto waiting = static_cast<double>(own.waiting);
  s.waiting = waiting + (known ? foreign_waiting_.load(kRelaxed) : 0);
  s.context = static_cast<double>(own.context);
  s.max_running = max_running_.load(kRelaxed);
  s.prefill_rate = prefill_rate_.load(kRelaxed);
  s.pace = pace_.load(kRelaxed);

  // Of the backlog, what has been computed since the last first token is at most one prompt's; others'
  // waiting prompts are taken to be as long as ours.
  const double backlog = std::max(0.0, static_cast<double>(backlog_.load(kRelaxed)));
  if (waiting > 0) {
    const double each = backlog / waiting;
    const auto since = static_cast<double>(Nanos(now) - computing_since_.load(kRelaxed)) * 1e-9;
    s.backlog = backlog - std::clamp(s.prefill_rate * since, 0.0, each) + each * (s.waiting - waiting);
  }
  const double held = kv_tokens > 0 ? s.context / kv_tokens : 0;
  const double then = kv_tokens > 0 ? static_cast<double>(context_then_.load(kRelaxed)) / kv_tokens : 0;
  s.kv_use = std::clamp(known ? scraped_kv_.load(kRelaxed) + held - then : held, 0.0, 1.0);
  if (own.requests > 0) {
    s.stalled = std::max(0.0, static_cast<double>(Nanos(now) - heard_at_.load(kRelaxed)) * 1e-9);
  }
  s.scraped = known ? Telemetry{scraped_running_.load(kRelaxed), scraped_waiting_.load(kRelaxed),
                                scraped_kv_.load(kRelaxed)}
                    : Telemetry{static_cast<double>(own.requests) - waiting, waiting, s.kv_use};
  return s;
}

}  // namespace router
