#include "router/policies/cost.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace router {
namespace {

constexpr size_t kMaxHolders = 32;
constexpr size_t kDraws = 4;
constexpr size_t kMaxCandidates = 48;
constexpr double kFullKv = 0.95;
// Of an engine that does not say how many requests it runs.
constexpr double kUsualRunning = 256;
// How often an adapter that is put out finds all slots in use when it is to come back, about.
constexpr double kFoundFull = 0.2;
// So near the least nobody could tell the difference.
constexpr double kIndistinct = 0.002;     // seconds
constexpr double kIndistinctPart = 0.02;  // of the least

// Distinct usable places.
class Places {
 public:
  explicit Places(const Candidates& all) : all_(all) {}

  void Offer(uint32_t place) {
    if (count_ == places_.size() || place >= all_.size()) return;
    if (std::find(begin(), end(), place) != end() || !all_.Usable(place)) return;
    places_[count_++] = place;
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
    for (uint32_t place = 0; place < candidates.size(); ++place) places.Offer(place);
    return places;
  }
  for (const PrefixMatch& match : facts.cached.first(std::min(facts.cached.size(), kMaxHolders))) {
    if (const auto place = candidates.PlaceOf(match.replica)) places.Offer(*place);
  }
  for (const std::atomic<uint32_t>& place : cell.least_loaded)
    places.Offer(place.load(std::memory_order_relaxed));
  if (candidates.adapter().homes != nullptr) {
    for (const std::atomic<uint32_t>& place : candidates.adapter().homes->places())
      places.Offer(place.load(std::memory_order_relaxed) - 1);  // none is no place, either
  }
  for (size_t i = 0; i < kDraws; ++i) places.Offer(static_cast<uint32_t>(rng.Uniform(candidates.size())));
  return places;
}

// Shows later picks those that would now be cheapest to somebody without any prefix.
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

// Whoever has not been measured yet is taken to be as fast as the fastest that has been, and so will be.
void FillUnmeasured(std::span<Signals> all) {
  double rate = 0;
  double pace = std::numeric_limits<double>::infinity();
  for (const Signals& signals : all) {
    if (signals.rate_measured) rate = std::max(rate, signals.prefill_rate);
    if (signals.pace_measured) pace = std::min(pace, signals.pace);
  }
  for (Signals& signals : all) {
    if (!signals.rate_measured && rate > 0) signals.prefill_rate = rate;
    if (!signals.pace_measured && std::isfinite(pace)) signals.pace = pace;
  }
}

// Likewise for the time that loading an adapter takes; the first guess where nobody's has been measured.
void FillUnmeasured(std::span<AdapterStanding> all, double guess) {
  double least = std::numeric_limits<double>::infinity();
  for (const AdapterStanding& standing : all) {
    if (standing.load > 0) least = std::min(least, standing.load);
  }
  for (AdapterStanding& standing : all) {
    if (standing.load <= 0) standing.load = std::isfinite(least) ? least : guess;
  }
}

// How soon one of those that run there ends, if they are as long as this one's answer: each takes `requests`
// times the pace a token, and so many end in that time.
double SecondsToAnEnd(const Signals& signals, const PickFacts& facts) {
  return static_cast<double>(facts.output_tokens) * signals.pace;
}

double MeanRequests(std::span<const Signals> all) {
  double sum = 0;
  for (const Signals& signals : all) sum += signals.requests;
  return all.empty() ? 0 : sum / static_cast<double>(all.size());
}

// Ties of a choice that is kept are drawn from a source of its own, by a seed that is kept with it.
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

void Keep(const Candidates& candidates, uint32_t place, const Signals& signals, int64_t cached,
          const AdapterStanding& adapter, const CostChoice::Offered& offered) {
  candidates.trace()->seen.push_back({candidates.replica(place).id, signals, cached, candidates.local(place),
                                      adapter, offered.vetoed, offered.terms});
}

// All candidates are saturated, or cannot be used: looks at everybody else too.
std::optional<Choice> PickOfAll(const Candidates& candidates, const PickFacts& facts, double mean,
                                scheduler::Rng& rng) {
  PickTrace* const trace = candidates.trace();
  if (trace != nullptr) {
    trace->seen.clear();
    trace->everybody = true;
  }
  Ties ties(trace, rng);
  CostChoice choice(facts.prompt_tokens, facts.output_tokens, mean, candidates.cost_weights(), ties.rng(),
                    facts.handover_seconds);
  for (uint32_t place = 0; place < candidates.size(); ++place) {
    if (!candidates.Usable(place)) continue;
    const Signals signals = candidates.Read(place);
    const int64_t cached = candidates.CachedAt(place, facts);
    AdapterStanding adapter;
    if (candidates.adapter().id != AdapterId::kNone) {
      adapter = candidates.AdapterAt(place);
      FillUnmeasured(std::span(&adapter, 1), candidates.cost_weights().adapter_load);
    }
    const auto offered = choice.Offer(place, signals, cached, candidates.local(place), adapter);
    if (trace != nullptr) Keep(candidates, place, signals, cached, adapter, offered);
  }
  return choice.Take(CostChoice::From::kEverybody, candidates.size());
}

}  // namespace

CostTerms CostOf(const Signals& s, double uncached, double output, double mean_requests,
                 const CostWeights& w) {
  const double compute = uncached / s.prefill_rate;
  const double k = std::min(s.kv_use, kFullKv);
  return {
      .wait = s.backlog / s.prefill_rate,
      .compute = compute,
      .decode = w.decode * output * s.pace * (s.requests + 1),
      .others = compute * (w.running * (s.requests - s.waiting) + w.pool * mean_requests),
      .pressure = w.pressure * k / (1 - k),
      .silence = std::max(0.0, s.stalled - w.usual_silence),
  };
}

double AdapterSeconds(const AdapterStanding& standing, const Signals& s, double output, double mean_requests,
                      const CostWeights& w) {
  using At = AdapterStanding::At;
  if (standing.at == At::kLoaded) return 0;
  const double load = standing.load * (1 + w.running * (s.requests - s.waiting) + w.pool * mean_requests);
  switch (standing.at) {
    case At::kLoaded:
      break;
    case At::kLoading:
      return std::max(0.0, standing.load - standing.elapsed);
    case At::kRoom:
      return load;
    case At::kEvicts:
      return 2 * load + kFoundFull * standing.wait;
    case At::kFull:
      return 2 * load + std::max(standing.wait, output * s.pace * (s.requests + 1));
  }
  return 0;
}

bool Vetoed(const Signals& s) {
  return s.waiting >= std::max(8.0, (s.max_running > 0 ? s.max_running : kUsualRunning) / 4);
}

CostChoice::Offered CostChoice::Offer(uint32_t place, const Signals& signals, int64_t cached, bool local,
                                      const AdapterStanding& adapter) {
  const auto output = static_cast<double>(output_);
  Offered offered{CostOf(signals, static_cast<double>(prompt_ - cached), output, mean_, weights_),
                  Vetoed(signals)};
  offered.terms.distance = local ? 0 : weights_.other_zone;
  offered.terms.adapter = AdapterSeconds(adapter, signals, output, mean_, weights_);
  offered.terms.handover = cached < prompt_ ? 0 : handover_;
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
  const bool everybody = from == From::kEverybody;
  std::optional<Choice> choice = least_[0].choice;
  if (choice) {
    choice->reason =
        everybody ? "least cost of all, the candidates being saturated" : "least cost in seconds";
  } else if (everybody && least_[1].choice) {
    choice = least_[1].choice;
    choice->reason = "least cost, all being saturated";
  }
  if (choice) choice->considered = considered;
  return choice;
}

std::optional<Choice> ChooseAgain(const PickTrace& trace, const CostWeights& weights) {
  if (trace.policy != PolicyKind::kCost) return std::nullopt;
  scheduler::Rng ties(trace.draw);
  CostChoice choice(trace.prompt_tokens, trace.output_tokens, trace.mean_requests, weights, ties,
                    trace.handover_seconds);
  for (uint32_t place = 0; const Seen& seen : trace.seen)
    choice.Offer(place++, seen.signals, seen.cached, seen.local, seen.adapter);
  return choice.Take(trace.everybody ? CostChoice::From::kEverybody : CostChoice::From::kCandidates,
                     trace.considered);
}

std::optional<Choice> CostPlan::Next(const Candidates& candidates, const PickFacts& facts) {
  std::array<uint32_t, kMaxCandidates> looked_at;
  std::array<Signals, kMaxCandidates> read;
  size_t count = 0;
  for (const uint32_t place : Gather(candidates, facts, cell_, rng_)) {
    Signals signals = candidates.Read(place);
    const auto there = std::ranges::find(planned_, place, &Planned::place);
    const uint32_t before = there == planned_.end() ? 0 : there->requests;
    if (before > 0) signals.backlog += static_cast<double>(there->tokens);
    if (full_(place)) {
      if (!signals.pace_measured || !signals.rate_measured) continue;
      signals.backlog += (before + 1) * SecondsToAnEnd(signals, facts) * signals.prefill_rate;
    }
    signals.requests += before;
    signals.waiting += before;
    read[count] = signals;
    looked_at[count++] = place;
  }
  const auto all = std::span(read).first(count);
  FillUnmeasured(all);
  std::array<AdapterStanding, kMaxCandidates> adapters{};
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
  const std::optional<Choice> best = choice.Take(CostChoice::From::kEverybody, static_cast<uint32_t>(count));
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
  std::array<Signals, kMaxCandidates> signals;
  for (size_t i = 0; i < places.size(); ++i) signals[i] = candidates.Read(places.begin()[i]);
  FillUnmeasured(std::span(signals).first(places.size()));
  std::optional<std::array<AdapterStanding, kMaxCandidates>> adapters;
  if (candidates.adapter().id != AdapterId::kNone) {
    adapters.emplace();
    for (size_t i = 0; i < places.size(); ++i) (*adapters)[i] = candidates.AdapterAt(places.begin()[i]);
    FillUnmeasured(std::span(*adapters).first(places.size()), candidates.cost_weights().adapter_load);
  }
  const double mean = MeanRequests(std::span(signals).first(places.size()));
  PickTrace* const trace = candidates.trace();
  if (trace != nullptr) trace->mean_requests = mean;
  Ties ties(trace, rng);
  CostChoice least(facts.prompt_tokens, facts.output_tokens, mean, candidates.cost_weights(), ties.rng(),
                   facts.handover_seconds);
  LeastLoaded idle;
  for (size_t i = 0; i < places.size(); ++i) {
    const uint32_t place = places.begin()[i];
    const int64_t cached = candidates.CachedAt(place, facts);
    const AdapterStanding adapter = adapters ? (*adapters)[i] : AdapterStanding{};
    const auto offered = least.Offer(place, signals[i], cached, candidates.local(place), adapter);
    if (trace != nullptr) Keep(candidates, place, signals[i], cached, adapter, offered);
    if (offered.vetoed) continue;
    // To somebody with one token to be computed.
    const auto output = static_cast<double>(facts.output_tokens);
    const double bare = CostOf(signals[i], 1, output, mean, candidates.cost_weights()).Sum();
    idle.Offer(place, bare + offered.terms.distance);
  }
  if (candidates.size() > kMaxCandidates) idle.Store(cell);
  if (auto choice = least.Take(CostChoice::From::kCandidates, static_cast<uint32_t>(places.size())))
    return choice;
  return PickOfAll(candidates, facts, mean, rng);
}

}  // namespace router
