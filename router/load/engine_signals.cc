#include "router/load/engine_signals.h"

#include <algorithm>
#include <cmath>

#include "router/relaxed.h"

namespace router {
namespace {

// Decay per first token: the meter follows about the last two hundred. With thirty, noise in the rates of
// equal replicas costs 4 % of the time to first token.
constexpr double kKeptOfPace = 0.995;
// Decay per answer: the mean of the last ones follows about the last twenty.
constexpr double kKeptOfLast = 0.95;
// Bounds of a measured rate, so that one odd sample does not hide a replica from the router.
constexpr double kMinRate = 10;
constexpr double kMaxRate = 1e7;

// Shortest time between two recorded signs of life. A store per token would write a cache line that all
// shards read.
constexpr int64_t kBetweenSigns = 5'000'000;  // ns
// The longest gap shrinks by one part in this many with every sign of life.
constexpr int64_t kGapDecay = 1024;
// The time of a shorter prompt shows the length of a step and of the network path, not the prefill rate.
constexpr double kMinRateSample = 128;  // tokens
// An idle replica is taken to be faster the longer ago it was measured; see Optimism.
constexpr double kOptimismGrows = 60e9;  // ns
constexpr double kMostOptimism = 9;
// The slowest case of an answer of which nothing is known.
constexpr double kSlowestToken = 0.1;  // seconds
constexpr int64_t kUnknownOutput = 4096;
constexpr double kFarSeconds = 86'400;

conf::Duration Lasting(double seconds) {
  return conf::Duration(static_cast<int64_t>(std::min(seconds, kFarSeconds) * 1e9));
}

double Sane(double value) {
  return std::isfinite(value) && value > 0 ? value : 0;
}

}  // namespace

void EngineSignals::Configure(const EngineLimits& limits) {
  max_running_.store(limits.max_running, kRelaxed);
  kv_tokens_.store(static_cast<double>(std::max<int64_t>(0, limits.kv_tokens)), kRelaxed);
  stale_after_.store(limits.stale_after.count(), kRelaxed);
  const std::lock_guard lock(meter_);
  if (computing_seconds_ == 0) {
    prefill_rate_.store(std::clamp(Sane(limits.first_prefill_rate), kMinRate, kMaxRate), kRelaxed);
  }
  if (token_requests_ == 0) pace_.store(Sane(limits.first_pace), kRelaxed);
}

EngineSignals::Charged EngineSignals::charged(conf::TimePoint now) const {
  Charged own{requests_.load(kRelaxed) - coming_.load(kRelaxed), waiting_.load(kRelaxed),
              context_.load(kRelaxed)};
  if (unseen_.load(kRelaxed) > 0) own.waiting += std::llround(ReadUnseen(now).waiting);
  return own;
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
  const std::lock_guard lock(meter_);
  batch_limit_.Observe({.running = running,
                        .waiting = waiting,
                        .ours = static_cast<double>(then.requests),
                        .ended = static_cast<double>(ended_.load(kRelaxed))},
                       now);
  observed_batch_limit_.store(batch_limit_.requests(), kRelaxed);
  telemetry_is_partial_.store(batch_limit_.partial(), kRelaxed);
}

bool EngineSignals::TelemetryIsFresh(conf::TimePoint now) const {
  const int64_t at = scraped_at_.load(kRelaxed);
  return at > 0 && Nanos(now) - at <= stale_after_.load(kRelaxed);
}

void EngineSignals::OnToken(conf::TimePoint now) {
  const int64_t at = Nanos(now);
  const int64_t gap = at - heard_at_.load(kRelaxed);
  if (gap < kBetweenSigns) return;
  heard_at_.store(at, kRelaxed);
  const int64_t usual = usual_gap_.load(kRelaxed);
  usual_gap_.store(std::max(gap, usual - usual / kGapDecay), kRelaxed);
}

void EngineSignals::Begin(InFlightRequest& request, conf::TimePoint now) {
  request.began = now;
  context_.fetch_add(request.work.context, kRelaxed);
  const int64_t others = requests_.fetch_add(1, kRelaxed) - coming_.load(kRelaxed);
  if (request.work.spare) spare_.fetch_add(1, kRelaxed);
  if (request.work.remote_prefill) {
    request.coming = true;
    coming_.fetch_add(1, kRelaxed);
  } else {
    Enter(request, others <= 0, now);
  }
}

void EngineSignals::PrefillArrived(InFlightRequest& request, conf::TimePoint now) {
  if (!request.coming) return;
  request.coming = false;
  const bool uncontended = requests_.load(kRelaxed) <= coming_.fetch_sub(1, kRelaxed);
  Enter(request, uncontended, now);
}

void EngineSignals::Enter(InFlightRequest& request, bool uncontended, conf::TimePoint now) {
  const Work& work = request.work;
  request.began = now;
  if (uncontended) heard_at_.store(Nanos(now), kRelaxed);
  if (work.unseen) {
    BeginUnseen(request, now);
    return;
  }
  if (unseen_.load(kRelaxed) > 0) {
    const std::lock_guard lock(meter_);
    Drain(now);  // with the visible backlog as it was until now
  }
  request.uncontended = waiting_.fetch_add(1, kRelaxed) == 0;
  if (request.uncontended) {
    computing_since_.store(Nanos(now), kRelaxed);
    unseen_then_.store(unseen_done_.load(kRelaxed), kRelaxed);
  }
  backlog_.fetch_add(work.uncached, kRelaxed);
  request.behind = unseen_in_.load(kRelaxed);
}

void EngineSignals::BeginUnseen(InFlightRequest& request, conf::TimePoint now) {
  const Work& work = request.work;
  const std::lock_guard lock(meter_);
  Drain(now);
  const double rate = prefill_rate_.load(kRelaxed);
  const double before = std::max(0.0, static_cast<double>(backlog_.load(kRelaxed))) +
                        static_cast<double>(unseen_in_.load(kRelaxed)) - unseen_done_.load(kRelaxed);
  const double compute = (before + static_cast<double>(work.uncached)) / rate;
  // While the pace is not known, the slowest case of the answer counts.
  const double each = token_requests_ > 0
                          ? pace_.load(kRelaxed) * static_cast<double>(requests_.load(kRelaxed))
                          : kSlowestToken;
  const double answer = each * static_cast<double>(work.output > 0 ? work.output : kUnknownOutput);
  request.computed_by = now + Lasting(compute);
  request.due = now + Lasting(2 * (compute + answer));
  unseen_.fetch_add(1, kRelaxed);
  unseen_held_.fetch_add(work.uncached, kRelaxed);
  request.behind = unseen_in_.fetch_add(work.uncached, kRelaxed) + work.uncached;
  if (spare_dues_.empty()) {
    dues_.insert(dues_.end(), Nanos(request.due));
  } else {
    spare_dues_.back().value() = Nanos(request.due);
    dues_.insert(dues_.end(), std::move(spare_dues_.back()));
    spare_dues_.pop_back();
  }
  unseen_due_.store(*dues_.begin(), kRelaxed);
}

// Engines compute in the order of arrival, so visible and unseen backlog shrink in proportion to their sizes.
void EngineSignals::Drain(conf::TimePoint now) {
  unseen_done_.store(static_cast<double>(unseen_in_.load(kRelaxed)) - ReadUnseen(now).left, kRelaxed);
  drained_at_.store(Nanos(now), kRelaxed);
}

EngineSignals::Unseen EngineSignals::ReadUnseen(conf::TimePoint now) const {
  Unseen unseen;
  unseen.count = static_cast<double>(unseen_.load(kRelaxed));
  unseen.held = static_cast<double>(unseen_held_.load(kRelaxed));
  const double stood = static_cast<double>(unseen_in_.load(kRelaxed)) - unseen_done_.load(kRelaxed);
  if (unseen.count <= 0 || stood <= 0) return unseen;
  unseen.stood = stood;
  const double seen = std::max(0.0, static_cast<double>(backlog_.load(kRelaxed)));
  const double seconds = std::max(0.0, static_cast<double>(Nanos(now) - drained_at_.load(kRelaxed)) * 1e-9);
  unseen.left = std::max(0.0, stood - prefill_rate_.load(kRelaxed) * seconds * stood / (stood + seen));
  unseen.waiting = unseen.count * std::min(1.0, unseen.left / std::max(1.0, unseen.held));
  return unseen;
}

// A replica that was slow when last measured may have recovered, but a policy that avoids it would never find
// out. So an idle replica is taken to be faster the longer ago it was measured.
double EngineSignals::Optimism(conf::TimePoint now) const {
  const int64_t measured = computing_since_.load(kRelaxed);
  if (measured == 0) return 1;
  return 1 + std::clamp(static_cast<double>(Nanos(now) - measured) / kOptimismGrows - 1, 0.0, kMostOptimism);
}

void EngineSignals::KnowDone(int64_t behind) {
  unseen_known_ = std::min(std::max(unseen_known_, static_cast<double>(behind)),
                           static_cast<double>(unseen_in_.load(kRelaxed)));
}

void EngineSignals::FirstToken(InFlightRequest& request, conf::TimePoint now) {
  request.computed = true;
  waiting_.fetch_sub(1, kRelaxed);
  backlog_.fetch_sub(request.work.uncached, kRelaxed);
  OnToken(now);
  if (request.work.remote_prefill) return;  // its time shows the transfer, not the prefill rate
  const std::lock_guard lock(meter_);
  const int64_t since = computing_since_.exchange(Nanos(now), kRelaxed);
  const double seconds = static_cast<double>(std::max<int64_t>(0, Nanos(now) - since)) * 1e-9;
  auto tokens = static_cast<double>(request.work.uncached);
  if (request.behind > 0) {
    // All unseen work before it is computed; work after it is not, unless its answer proved it.
    KnowDone(request.behind);
    tokens += std::max(0.0, unseen_known_ - unseen_then_.load(kRelaxed));
    unseen_done_.store(unseen_known_, kRelaxed);
    unseen_then_.store(unseen_known_, kRelaxed);
    drained_at_.store(Nanos(now), kRelaxed);
  }
  if (request.loads) return;
  first_token_pace_.Observe(seconds);
  if (request.uncontended)
    first_token_pace_.ObserveUncontended(conf::ToSeconds(now - request.began),
                                         static_cast<double>(request.work.uncached));
  first_tokens_.store(first_token_pace_.per_second(), kRelaxed);
  uncontended_.store(first_token_pace_.uncontended(), kRelaxed);
  latency_.store(first_token_pace_.latency(), kRelaxed);
  ++totals_.first_tokens;
  totals_.computed_tokens += tokens;
  totals_.computing_seconds += seconds;
  if (tokens < kMinRateSample) return;
  computed_tokens_ = computed_tokens_ * kKeptOfPace + tokens;
  computing_seconds_ = computing_seconds_ * kKeptOfPace + seconds;
  if (computing_seconds_ <= 0 || computed_tokens_ <= 0) return;
  prefill_rate_.store(std::clamp(computed_tokens_ / computing_seconds_, kMinRate, kMaxRate), kRelaxed);
  rate_measured_.store(true, kRelaxed);
}

void EngineSignals::Answered(InFlightRequest& request, conf::TimePoint now) {
  OnToken(now);
  if (request.computed) return;
  request.computed = true;
  if (request.work.unseen) {
    const std::lock_guard lock(meter_);
    Drain(now);
    KnowDone(request.behind);
    unseen_done_.store(std::max(unseen_done_.load(kRelaxed), unseen_known_), kRelaxed);
    return;
  }
  // It was to be streamed and came in one piece: when its prompt was computed is not known.
  waiting_.fetch_sub(1, kRelaxed);
  backlog_.fetch_sub(request.work.uncached, kRelaxed);
  computing_since_.store(Nanos(now), kRelaxed);
}

// Both sums decay together, so that the pace stays when the load changes. A pace that ignores the number of
// requests would send everything to the replica whose last answers happened to be quick.
void EngineSignals::LearnPace(const InFlightRequest& request, double token_time) {
  const auto requests = static_cast<double>(std::max<int64_t>(1, requests_.load(kRelaxed)));
  const std::lock_guard lock(meter_);
  last_answers_ = last_answers_ * kKeptOfLast + 1;
  last_seconds_ = last_seconds_ * kKeptOfLast + Sane(token_time);
  last_requests_ = last_requests_ * kKeptOfLast + requests;
  token_time_.store(last_seconds_ / last_answers_, kRelaxed);
  met_requests_.store(last_requests_ / last_answers_, kRelaxed);
  if (request.work.unseen && pace_seen_) return;
  if (!request.work.unseen && !pace_seen_) {
    pace_seen_ = true;  // inferred paces are dropped
    token_seconds_ = token_requests_ = 0;
  }
  token_seconds_ = token_seconds_ * kKeptOfPace + Sane(token_time);
  token_requests_ = token_requests_ * kKeptOfPace + requests;
  pace_.store(token_seconds_ / token_requests_, kRelaxed);
  pace_measured_.store(true, kRelaxed);
  ++totals_.answers;
  totals_.token_seconds += Sane(token_time);
  totals_.token_requests += requests;
}

SpeedTotals EngineSignals::totals() const {
  const std::lock_guard lock(meter_);
  return totals_;
}

void EngineSignals::End(const InFlightRequest& request) {
  requests_.fetch_sub(1, kRelaxed);
  if (request.work.spare) spare_.fetch_sub(1, kRelaxed);
  ended_.fetch_add(1, kRelaxed);
  context_.fetch_sub(request.work.context, kRelaxed);
  if (request.coming) {
    coming_.fetch_sub(1, kRelaxed);
    return;
  }
  if (request.work.unseen) {
    EndUnseen(request);
    return;
  }
  if (request.computed) return;
  waiting_.fetch_sub(1, kRelaxed);
  backlog_.fetch_sub(request.work.uncached, kRelaxed);
}

void EngineSignals::EndUnseen(const InFlightRequest& request) {
  const std::lock_guard lock(meter_);
  unseen_held_.fetch_sub(request.work.uncached, kRelaxed);
  spare_dues_.push_back(dues_.extract(dues_.find(Nanos(request.due))));
  unseen_due_.store(dues_.empty() ? 0 : *dues_.begin(), kRelaxed);
  const auto in = static_cast<double>(unseen_in_.load(kRelaxed));
  if (unseen_.fetch_sub(1, kRelaxed) == 1) {
    unseen_known_ = in;
    unseen_done_.store(in, kRelaxed);
  } else if (!request.computed) {
    // It left early: its uncomputed tokens never will be. The positions of others shift a little.
    const double left = std::clamp(static_cast<double>(request.behind) - unseen_done_.load(kRelaxed), 0.0,
                                   static_cast<double>(request.work.uncached));
    unseen_done_.store(std::min(in, unseen_done_.load(kRelaxed) + left), kRelaxed);
  }
}

conf::Duration EngineSignals::Overdue(conf::TimePoint now) const {
  const int64_t requests = requests_.load(kRelaxed) - coming_.load(kRelaxed);
  if (requests <= 0) return {};
  const int64_t waiting = waiting_.load(kRelaxed);
  const int64_t unseen = unseen_.load(kRelaxed);
  const double backlog = std::max(0.0, static_cast<double>(backlog_.load(kRelaxed))) + ReadUnseen(now).left;
  int64_t expected = heard_at_.load(kRelaxed) + Lasting(2 * backlog / prefill_rate_.load(kRelaxed)).count();
  const bool tokens_come = requests > waiting + unseen;
  if (!tokens_come && unseen > 0) expected = std::max(expected, unseen_due_.load(kRelaxed));
  return conf::Duration(std::max<int64_t>(0, Nanos(now) - expected));
}

// The visible backlog. At most one mean prompt can have been computed since the last first token.
double EngineSignals::SeenBacklog(double waiting, double rate, double share, conf::TimePoint now) const {
  const double backlog = std::max(0.0, static_cast<double>(backlog_.load(kRelaxed)));
  if (waiting <= 0) return 0;
  const auto since = static_cast<double>(Nanos(now) - computing_since_.load(kRelaxed)) * 1e-9;
  return backlog - std::clamp(rate * since * share, 0.0, backlog / waiting);
}

ReplicaSignals EngineSignals::Read(conf::TimePoint now) const {
  ReplicaSignals s;
  const int64_t requests = requests_.load(kRelaxed);
  const int64_t unseen_count = unseen_.load(kRelaxed);
  const bool known = TelemetryIsFresh(now);
  const double kv_tokens = kv_tokens_.load(kRelaxed);
  s.requests = static_cast<double>(requests) + (known ? foreign_requests_.load(kRelaxed) : 0);
  s.spare = static_cast<double>(spare_.load(kRelaxed));
  const auto seen_waiting = static_cast<double>(waiting_.load(kRelaxed));
  const Unseen unseen = unseen_count > 0 ? ReadUnseen(now) : Unseen{};
  const double waiting = seen_waiting + unseen.waiting;
  s.waiting = waiting + (known ? foreign_waiting_.load(kRelaxed) : 0);
  s.context = static_cast<double>(context_.load(kRelaxed));
  s.max_running = max_running_.load(kRelaxed);
  s.prefill_rate = prefill_rate_.load(kRelaxed);
  if (requests == 0) s.prefill_rate *= Optimism(now);
  s.pace = pace_.load(kRelaxed);
  s.token_time = token_time_.load(kRelaxed);
  s.token_requests = met_requests_.load(kRelaxed);
  s.rate_measured = rate_measured_.load(kRelaxed);
  s.pace_measured = pace_measured_.load(kRelaxed);

  // Waiting prompts of others are taken to be as long as ours.
  const double backlog = std::max(0.0, static_cast<double>(backlog_.load(kRelaxed)));
  double all = backlog;
  double among = seen_waiting;
  s.backlog = unseen.left;
  if (seen_waiting > 0) {
    const double share = unseen.stood > 0 ? backlog / (backlog + unseen.stood) : 1;
    s.backlog += SeenBacklog(seen_waiting, s.prefill_rate, share, now);
  }
  if (unseen_count > 0) {
    all += unseen.held;
    among += unseen.count;
  }
  if (among > 0) s.backlog += all / among * (s.waiting - waiting);
  const double held = kv_tokens > 0 ? s.context / kv_tokens : 0;
  const double then = kv_tokens > 0 ? static_cast<double>(context_then_.load(kRelaxed)) / kv_tokens : 0;
  s.kv_use = std::clamp(known ? scraped_kv_.load(kRelaxed) + held - then : held, 0.0, 1.0);
  if (requests > coming_.load(kRelaxed)) {
    // Unseen requests are silent until their answers are due.
    const conf::Duration silence = unseen_count > 0 ? Overdue(now) : now - heard_at();
    s.stalled = std::max(0.0, conf::ToSeconds(silence));
  }
  s.scraped = known ? Telemetry{scraped_running_.load(kRelaxed), scraped_waiting_.load(kRelaxed),
                                scraped_kv_.load(kRelaxed)}
                    : Telemetry{static_cast<double>(requests) - waiting, waiting, s.kv_use};
  return s;
}

ObservedSignals EngineSignals::ReadObserved(conf::TimePoint now) const {
  const bool known = TelemetryIsFresh(now);
  const bool whole = known && !telemetry_is_partial_.load(kRelaxed);
  ObservedSignals s;
  s.requests = static_cast<double>(requests_.load(kRelaxed)) + (known ? foreign_requests_.load(kRelaxed) : 0);
  s.waiting = static_cast<double>(waiting_.load(kRelaxed));
  s.prefill_rate = prefill_rate_.load(kRelaxed);
  s.rate_measured = rate_measured_.load(kRelaxed);
  s.backlog = SeenBacklog(s.waiting, s.prefill_rate, 1, now);
  s.first_tokens = first_tokens_.load(kRelaxed);
  s.uncontended = uncontended_.load(kRelaxed);
  s.latency = latency_.load(kRelaxed);
  if (!telemetry_is_partial_.load(kRelaxed)) s.max_running = max_running_.load(kRelaxed);
  if (!whole) return s;
  s.observed_batch_limit = observed_batch_limit_.load(kRelaxed);
  s.kv_use = scraped_kv_.load(kRelaxed);
  if (const double kv_tokens = kv_tokens_.load(kRelaxed); kv_tokens > 0) {
    const int64_t left = context_then_.load(kRelaxed) - context_.load(kRelaxed);
    s.kv_use -= static_cast<double>(std::max<int64_t>(0, left)) / kv_tokens;
  }
  return s;
}

}  // namespace router
