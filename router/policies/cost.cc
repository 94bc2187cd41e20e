#include "router/policies/cost.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace router {
namespace {

constexpr size_t kMaxHolders = 32;
constexpr size_t kDraws = 4;
constexpr size_t kMaxCandidates = 40;
constexpr double kFullKv = 0.95;
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
  for (size_t i = 0; i < kDraws; ++i) places.Offer(static_cast<uint32_t>(rng.Uniform(candidates.size())));
  return places;
}

// Keeps the least. Of those that are nearly as good the one with the fewest requests, of equals any: rates
// are measured with noise, and the exact least would be the same replica whenever nobody is busy.
class Least {
 public:
  void Offer(uint32_t place, const CostTerms& terms, double requests, scheduler::Rng& rng) {
    const double cost = terms.Sum();
    least_ = std::min(least_, cost);
    const double nearly = least_ + kIndistinct + kIndistinctPart * least_;
    if (cost > nearly) return;
    const bool alike = choice_ && choice_->score <= nearly;
    if (alike && requests > requests_) return;
    ties_ = alike && requests == requests_ ? ties_ + 1 : 1;
    if (ties_ > 1 && rng.Uniform(ties_) != 0) return;
    requests_ = requests;
    choice_ = Choice{.place = place, .score = cost, .considered = 0, .reason = {}, .terms = terms};
  }
  std::optional<Choice> Take(uint32_t considered, std::string_view reason) {
    if (!choice_) return std::nullopt;
    choice_->considered = considered;
    choice_->reason = reason;
    return choice_;
  }

 private:
  std::optional<Choice> choice_;
  double least_ = std::numeric_limits<double>::infinity();
  double requests_ = 0;
  uint64_t ties_ = 0;
};

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

double Uncached(const Candidates& candidates, uint32_t place, const PickFacts& facts) {
  return static_cast<double>(facts.prompt_tokens - candidates.CachedAt(place, facts));
}

double MeanRequests(std::span<const Signals> all) {
  double sum = 0;
  for (const Signals& signals : all) sum += signals.requests;
  return all.empty() ? 0 : sum / static_cast<double>(all.size());
}

// All candidates are saturated, or cannot be used: looks at everybody else too.
std::optional<Choice> PickOfAll(const Candidates& candidates, const PickFacts& facts, double mean,
                                scheduler::Rng& rng) {
  Least open;
  Least any;
  for (uint32_t place = 0; place < candidates.size(); ++place) {
    if (!candidates.Usable(place)) continue;
    const Signals signals = candidates.Read(place);
    const CostTerms terms = CostOf(signals, Uncached(candidates, place, facts),
                                   static_cast<double>(facts.output_tokens), mean, candidates.cost_weights());
    (Vetoed(signals) ? any : open).Offer(place, terms, signals.requests, rng);
  }
  if (auto choice = open.Take(candidates.size(), "least cost of all, the candidates being saturated")) {
    return choice;
  }
  return any.Take(candidates.size(), "least cost, all being saturated");
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

bool Vetoed(const Signals& s) {
  return s.waiting >= std::max(8.0, s.max_running / 4);
}

std::optional<Choice> PickCost(const Candidates& candidates, const PickFacts& facts, ModelCell& cell,
                               scheduler::Rng& rng) {
  const Places places = Gather(candidates, facts, cell, rng);
  std::array<Signals, kMaxCandidates> signals;
  for (size_t i = 0; i < places.size(); ++i) signals[i] = candidates.Read(places.begin()[i]);
  FillUnmeasured(std::span(signals).first(places.size()));
  const double mean = MeanRequests(std::span(signals).first(places.size()));
  const auto output = static_cast<double>(facts.output_tokens);
  const CostWeights& weights = candidates.cost_weights();
  Least least;
  LeastLoaded idle;
  for (size_t i = 0; i < places.size(); ++i) {
    const uint32_t place = places.begin()[i];
    if (Vetoed(signals[i])) continue;
    const CostTerms terms = CostOf(signals[i], Uncached(candidates, place, facts), output, mean, weights);
    least.Offer(place, terms, signals[i].requests, rng);
    idle.Offer(place, CostOf(signals[i], 1, output, mean, weights).Sum());
  }
  if (candidates.size() > kMaxCandidates) idle.Store(cell);
  if (auto choice = least.Take(static_cast<uint32_t>(places.size()), "least cost in seconds")) return choice;
  return PickOfAll(candidates, facts, mean, rng);
}

std::vector<CostRow> ExplainCost(const Candidates& candidates, const PickFacts& facts, const ModelCell& cell,
                                 scheduler::Rng& rng) {
  const Places places = Gather(candidates, facts, cell, rng);
  std::vector<CostRow> rows;
  std::vector<Signals> all;
  for (const uint32_t place : places) all.push_back(candidates.Read(place));
  FillUnmeasured(all);
  for (size_t i = 0; i < all.size(); ++i) {
    const uint32_t place = places.begin()[i];
    rows.push_back(
        {place, all[i], candidates.CachedAt(place, facts),
         CostOf(all[i], Uncached(candidates, place, facts), static_cast<double>(facts.output_tokens),
                MeanRequests(all), candidates.cost_weights()),
         Vetoed(all[i])});
  }
  std::ranges::sort(rows, {},
                    [](const CostRow& row) { return std::tuple(row.vetoed, row.terms.Sum(), row.place); });
  return rows;
}

}  // namespace router
