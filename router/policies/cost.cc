#include "router/policies/cost.h"

#include <absl/container/inlined_vector.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace router {
namespace {

constexpr size_t kMaxHolders = 32;
constexpr size_t kDraws = 16;
constexpr size_t kMaxCandidates = 64;
constexpr double kFullKv = 0.95;
// Assumed where an engine does not say how many requests it runs.
constexpr double kUsualRunning = 256;
// How often, roughly, an evicted adapter finds all slots in use when it is needed again.
constexpr double kFoundFull = 0.2;
// Costs that are this close to the lowest count as equal.
constexpr double kIndistinct = 0.002;     // seconds
constexpr double kIndistinctPart = 0.02;  // of the lowest

// Not an array: most pools are small, and each of its elements would be initialised.
using AllSignals = absl::InlinedVector<ReplicaSignals, kMaxCandidates>;

// A set of usable places.
class Places {
 public:
  explicit Places(const Candidates& all) : all_(all) {}

  void Offer(uint32_t place) {
    if (count_ == places_.size() || place >= all_.size()) return;
    if (std::find(begin(), end(), place) == end()) OfferNew(place);
  }
  // Offers a replica that was not offered yet, if there is room.
  void OfferNew(uint32_t place) {
    if (all_.Usable(place)) places_[count_++] = place;
  }
  const uint32_t* begin() const { return places_.data(); }
  const uint32_t* end() const { return places_.data() + count_; }
  size_t size() const { return count_; }

 private:
  const Candidates& all_;
  std::array<uint32_t, kMaxCandidates> places_{};
  size_t count_ = 0;
};

Places Gather(const Candidates& candidates, const PickFacts& facts, const ModelCell& cell,
              scheduler::Rng& rng) {
  Places places(candidates);
  if (candidates.size() <= kMaxCandidates) {
    for (uint32_t place = 0; place < candidates.size(); ++place) places.OfferNew(place);
    return places;
  }
  for (const PrefixMatch& match : facts.cached.first(std::min(facts.cached.size(), kMaxHolders))) {
    if (const auto place = candidates.PlaceOf(match.replica)) places.Offer(*place);
  }
  for (const std::atomic<uint32_t>& place : cell.least_loaded)
    places.Offer(place.load(std::memory_order_relaxed));
  if (candidates.adapter().placements != nullptr) {
    for (const std::atomic<uint32_t>& place : candidates.adapter().placements->places())
      places.Offer(place.load(std::memory_order_relaxed) - 1);  // 0, no place, becomes one out of range
  }
  for (size_t i = 0; i < kDraws; ++i) places.Offer(static_cast<uint32_t>(rng.Uniform(candidates.size())));
  return places;
}

// Collects the places that would be cheapest for a request without any prefix, as a hint to later picks.
class LeastLoaded {
 public:
  void Offer(uint32_t place, double cost) {
    for (size_t i = 0; i < places_.size(); ++i) {
      if (i < count_ && costs_[i] <= cost) continue;
      for (size_t j = std::min(count_, places_.size() - 1); j > i; --j) {
        places_[j] = places_[j - 1];
        costs_[j] = costs_[j - 1];
      }
      places_[i] = place;
      costs_[i] = cost;
      count_ = std::min(count_ + 1, places_.size());
      return;
    }
  }
  void Store(ModelCell& cell) const {
    for (size_t i = 0; i < count_; ++i) cell.least_loaded[i].store(places_[i], std::memory_order_relaxed);
  }

 private:
  std::array<uint32_t, std::tuple_size_v<decltype(ModelCell::least_loaded)>> places_{};
  std::array<double, std::tuple_size_v<decltype(ModelCell::least_loaded)>> costs_{};
  size_t count_ = 0;
};

// An unmeasured replica counts as fast as the fastest measured one, so that it is tried and gets measured.
void FillUnmeasured(std::span<ReplicaSignals> all) {
  double rate = 0;
  double pace = std::numeric_limits<double>::infinity();
  for (const ReplicaSignals& signals : all) {
    if (signals.rate_measured) rate = std::max(rate, signals.prefill_rate);
    if (signals.pace_measured) pace = std::min(pace, signals.pace);
  }
  for (ReplicaSignals& signals : all) {
    if (!signals.rate_measured && rate > 0) signals.prefill_rate = rate;
    if (!signals.pace_measured && std::isfinite(pace)) signals.pace = pace;
  }
}

// Likewise for the time that loading an adapter takes; `guess` where it was measured nowhere.
void FillUnmeasured(std::span<AdapterAvailability> all, double guess) {
  double least = std::numeric_limits<double>::infinity();
  for (const AdapterAvailability& availability : all) {
    if (availability.load > 0) least = std::min(least, availability.load);
  }
  for (AdapterAvailability& availability : all) {
    if (availability.load <= 0) availability.load = std::isfinite(least) ? least : guess;
  }
}

// Seconds until one of the running requests ends, if they are as long as this one's expected answer: with n
// requests each answer takes output * pace * n, and n of them end in that time.
double SecondsUntilOneEnds(const ReplicaSignals& signals, double output) {
  return output * signals.pace;
}

// Seconds until a place in the batch is free: as many requests must end first as are more than it holds.
double SecondsUntilAPlaceIsFree(const ReplicaSignals& signals, double output) {
  if (signals.max_running <= 0) return 0;
  return std::max(0.0, signals.requests + 1 - signals.max_running) * SecondsUntilOneEnds(signals, output);
}

// The requests in the batch that count as delayed: lines of batches do not.
double DelayedBy(const ReplicaSignals& s) {
  return std::max(0.0, s.requests - s.waiting - s.spare);
}

double MeanRequests(std::span<const ReplicaSignals> all) {
  double sum = 0;
  for (const ReplicaSignals& signals : all) sum += signals.requests - signals.spare;
  return all.empty() ? 0 : sum / static_cast<double>(all.size());
}

// The random source that breaks ties. A recorded choice has a source of its own, whose seed is recorded, so
// that the same choice can be made again.
class Ties {
 public:
  Ties(PickTrace* trace, scheduler::Rng& rng) : rng_(rng) {
    if (trace != nullptr) kept_.emplace(trace->draw = rng.Next());
  }
  scheduler::Rng& rng() { return kept_ ? *kept_ : rng_; }

 private:
  scheduler::Rng& rng_;
  std::optional<scheduler::Rng> kept_;
};

void Record(const Candidates& candidates, uint32_t place, const ReplicaSignals& signals, int64_t cached,
            const AdapterAvailability& adapter, const CostChoice::Offered& offered) {
  candidates.trace()->scored.push_back({candidates.replica(place).id, signals, cached,
                                        candidates.local(place), adapter, offered.vetoed, offered.terms});
}

// All candidates are saturated or unusable: looks at every replica.
std::optional<Choice> PickFromAll(const Candidates& candidates, const PickFacts& facts, double mean,
                                  scheduler::Rng& rng) {
  PickTrace* const trace = candidates.trace();
  if (trace != nullptr) {
    trace->scored.clear();
    trace->everybody = true;
  }
  Ties ties(trace, rng);
  CostChoice choice(facts.prompt_tokens, facts.output_tokens, mean, candidates.cost_weights(), ties.rng(),
                    facts.remote_prefill_seconds);
  for (uint32_t place = 0; place < candidates.size(); ++place) {
    if (!candidates.Usable(place)) continue;
    const ReplicaSignals signals = candidates.Read(place);
    const int64_t cached = candidates.CachedAt(place, facts);
    AdapterAvailability adapter;
    if (candidates.adapter().id != AdapterId::kNone) {
      adapter = candidates.AdapterAt(place);
      FillUnmeasured(std::span(&adapter, 1), candidates.cost_weights().adapter_load);
    }
    const auto offered = choice.Offer(place, signals, cached, candidates.local(place), adapter);
    if (trace != nullptr) Record(candidates, place, signals, cached, adapter, offered);
  }
  return choice.Take(CostChoice::From::kAllReplicas, candidates.size());
}

}  // namespace

CostTerms CostOf(const ReplicaSignals& s, double uncached, double output, double mean_requests,
                 const CostWeights& w) {
  const double compute = uncached / s.prefill_rate;
  const double k = std::min(s.kv_use, kFullKv);
  return {
      .wait = s.backlog / s.prefill_rate + SecondsUntilAPlaceIsFree(s, output),
      .compute = compute,
      .decode = w.decode * output * s.pace * (s.requests + 1),
      .others = compute * (w.running * DelayedBy(s) + w.pool * mean_requests),
      .pressure = w.pressure * k / (1 - k),
      .silence = std::max(0.0, s.stalled - w.usual_silence),
  };
}

double AdapterSeconds(const AdapterAvailability& availability, const ReplicaSignals& s, double output,
                      double mean_requests, const CostWeights& w) {
  using State = AdapterAvailability::State;
  if (availability.state == State::kLoaded) return 0;
  const double load = availability.load * (1 + w.running * DelayedBy(s) + w.pool * mean_requests);
  switch (availability.state) {
    case State::kLoaded:
      break;
    case State::kLoading:
      return std::max(0.0, availability.load - availability.elapsed);
    case State::kFreeSlot:
      return load;
    case State::kEvicts:
      return 2 * load + kFoundFull * availability.wait;
    case State::kFull:
      return 2 * load + std::max(availability.wait, output * s.pace * (s.requests + 1));
  }
  return 0;
}

bool Vetoed(const ReplicaSignals& s) {
  return s.waiting >= std::max(8.0, (s.max_running > 0 ? s.max_running : kUsualRunning) / 4);
}

CostChoice::Offered CostChoice::Offer(uint32_t place, const ReplicaSignals& signals, int64_t cached,
                                      bool local, const AdapterAvailability& adapter) {
  const auto output = static_cast<double>(output_);
  Offered offered{CostOf(signals, static_cast<double>(prompt_ - cached), output, mean_, weights_),
                  Vetoed(signals)};
  offered.terms.distance = local ? 0 : weights_.other_zone;
  offered.terms.adapter = AdapterSeconds(adapter, signals, output, mean_, weights_);
  offered.terms.remote_prefill = cached < prompt_ ? 0 : remote_prefill_;
  auto& [best, least, requests, ties] = least_[offered.vetoed ? 1 : 0];
  const double cost = offered.terms.Sum();
  least = std::min(least, cost);
  const double nearly = least + kIndistinct + kIndistinctPart * least;
  if (cost > nearly) return offered;
  const bool alike = best && best->score <= nearly;
  if (alike && signals.requests > requests) return offered;
  ties = alike && signals.requests == requests ? ties + 1 : 1;
  if (ties > 1 && ties_.Uniform(ties) != 0) return offered;
  requests = signals.requests;
  best = Choice{.place = place, .score = cost, .considered = 0, .reason = {}, .terms = offered.terms};
  return offered;
}

std::optional<Choice> CostChoice::Take(From from, uint32_t considered) const {
  const bool all = from == From::kAllReplicas;
  std::optional<Choice> choice = least_[0].choice;
  if (choice) {
    choice->reason =
        all ? "lowest cost of all replicas, because every candidate is saturated" : "lowest cost in seconds";
  } else if (all && least_[1].choice) {
    choice = least_[1].choice;
    choice->reason = "lowest cost, because all replicas are saturated";
  }
  if (choice) choice->considered = considered;
  return choice;
}

std::optional<Choice> ChooseAgain(const PickTrace& trace, const CostWeights& weights) {
  if (trace.policy != PolicyKind::kCost) return std::nullopt;
  scheduler::Rng ties(trace.draw);
  CostChoice choice(trace.prompt_tokens, trace.output_tokens, trace.mean_requests, weights, ties,
                    trace.remote_prefill_seconds);
  for (uint32_t place = 0; const ScoredCandidate& seen : trace.scored)
    choice.Offer(place++, seen.signals, seen.cached, seen.local, seen.adapter);
  return choice.Take(trace.everybody ? CostChoice::From::kAllReplicas : CostChoice::From::kCandidates,
                     trace.considered);
}

std::optional<Choice> CostPlan::Next(const Candidates& candidates, const PickFacts& facts) {
  absl::InlinedVector<uint32_t, kMaxCandidates> looked_at;
  AllSignals all;
  for (const uint32_t place : Gather(candidates, facts, cell_, rng_)) {
    ReplicaSignals signals = candidates.Read(place);
    const auto there = std::ranges::find(planned_, place, &Planned::place);
    const uint32_t before = there == planned_.end() ? 0 : there->requests;
    if (before > 0) signals.backlog += static_cast<double>(there->tokens);
    const bool full = full_(place);
    if (full && (!signals.pace_measured || !signals.rate_measured)) continue;
    signals.requests += before;
    signals.waiting += before;
    // The same number must end where not the batch but another resource is full, such as the cache.
    const auto output = static_cast<double>(facts.output_tokens);
    if (full && SecondsUntilAPlaceIsFree(signals, output) == 0)
      signals.backlog += (before + 1) * SecondsUntilOneEnds(signals, output) * signals.prefill_rate;
    all.push_back(signals);
    looked_at.push_back(place);
  }
  const size_t count = all.size();
  FillUnmeasured(std::span(all));
  std::array<AdapterAvailability, kMaxCandidates> adapters{};
  if (candidates.adapter().id != AdapterId::kNone) {
    for (size_t i = 0; i < count; ++i) adapters[i] = candidates.AdapterAt(looked_at[i]);
    FillUnmeasured(std::span(adapters).first(count), candidates.cost_weights().adapter_load);
  }
  CostChoice choice(facts.prompt_tokens, facts.output_tokens, MeanRequests(all), candidates.cost_weights(),
                    rng_);
  for (size_t i = 0; i < count; ++i) {
    choice.Offer(looked_at[i], all[i], candidates.CachedAt(looked_at[i], facts),
                 candidates.local(looked_at[i]), adapters[i]);
  }
  const std::optional<Choice> best =
      choice.Take(CostChoice::From::kAllReplicas, static_cast<uint32_t>(count));
  if (!best) return best;
  const int64_t uncached = facts.prompt_tokens - candidates.CachedAt(best->place, facts);
  const auto there = std::ranges::find(planned_, best->place, &Planned::place);
  if (there == planned_.end()) {
    planned_.push_back({best->place, uncached, 1});
  } else {
    there->tokens += uncached;
    ++there->requests;
  }
  return best;
}

std::optional<Choice> PickCost(const Candidates& candidates, const PickFacts& facts, ModelCell& cell,
                               scheduler::Rng& rng) {
  const Places places = Gather(candidates, facts, cell, rng);
  AllSignals signals;
  for (const uint32_t place : places) signals.push_back(candidates.Read(place));
  FillUnmeasured(std::span(signals));
  std::optional<std::array<AdapterAvailability, kMaxCandidates>> adapters;
  if (candidates.adapter().id != AdapterId::kNone) {
    adapters.emplace();
    for (size_t i = 0; i < places.size(); ++i) (*adapters)[i] = candidates.AdapterAt(places.begin()[i]);
    FillUnmeasured(std::span(*adapters).first(places.size()), candidates.cost_weights().adapter_load);
  }
  const double mean = MeanRequests(signals);
  PickTrace* const trace = candidates.trace();
  if (trace != nullptr) trace->mean_requests = mean;
  Ties ties(trace, rng);
  CostChoice least(facts.prompt_tokens, facts.output_tokens, mean, candidates.cost_weights(), ties.rng(),
                   facts.remote_prefill_seconds);
  LeastLoaded idle;
  for (size_t i = 0; i < places.size(); ++i) {
    const uint32_t place = places.begin()[i];
    const int64_t cached = candidates.CachedAt(place, facts);
    const AdapterAvailability adapter = adapters ? (*adapters)[i] : AdapterAvailability{};
    const auto offered = least.Offer(place, signals[i], cached, candidates.local(place), adapter);
    if (trace != nullptr) Record(candidates, place, signals[i], cached, adapter, offered);
    if (offered.vetoed) continue;
    // The cost for a request with one token to compute.
    const auto output = static_cast<double>(facts.output_tokens);
    const double bare = CostOf(signals[i], 1, output, mean, candidates.cost_weights()).Sum();
    idle.Offer(place, bare + offered.terms.distance);
  }
  if (candidates.size() > kMaxCandidates) idle.Store(cell);
  if (auto choice = least.Take(CostChoice::From::kCandidates, static_cast<uint32_t>(places.size())))
    return choice;
  return PickFromAll(candidates, facts, mean, rng);
}

}  // namespace router
