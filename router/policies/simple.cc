#include "router/policies/simple.h"

#include "router/policies/least_of.h"

namespace router {
namespace {

constexpr uint32_t kMaxDraws = 16;  // before a policy that draws at random looks at every replica

// Two of the candidates offered to it; each pair is equally likely.
class RandomPair {
 public:
  void Offer(uint32_t place, scheduler::Rng& rng) {
    ++offered_;
    if (offered_ <= 2) {
      places_[offered_ - 1] = place;
    } else if (const uint64_t slot = rng.Uniform(offered_); slot < 2) {
      places_[slot] = place;
    }
  }
  uint64_t size() const { return offered_ < 2 ? offered_ : 2; }
  bool Holds(uint32_t place) const { return offered_ > 0 && places_[0] == place; }
  uint32_t operator[](size_t i) const { return places_[i]; }

 private:
  uint64_t offered_ = 0;
  uint32_t places_[2] = {};
};

}  // namespace

std::optional<Choice> PickRoundRobin(const Candidates& candidates, const PickFacts&, ModelCell& cell,
                                     scheduler::Rng&) {
  for (uint32_t skipped = 0; skipped < candidates.size(); ++skipped) {
    const uint64_t turn = cell.turn.fetch_add(1, std::memory_order_relaxed);
    const auto place = static_cast<uint32_t>(turn % candidates.size());
    if (candidates.Usable(place)) {
      return Choice{place, static_cast<double>(turn), skipped + 1, "next in turn"};
    }
  }
  // Other shards moved the turn meanwhile: look at each replica once.
  for (uint32_t place = 0; place < candidates.size(); ++place) {
    if (candidates.Usable(place)) {
      return Choice{place, static_cast<double>(place), candidates.size() + place + 1, "first usable replica"};
    }
  }
  return std::nullopt;
}

std::optional<Choice> PickRandom(const Candidates& candidates, const PickFacts&, ModelCell&,
                                 scheduler::Rng& rng) {
  for (uint32_t drawn = 1; drawn <= kMaxDraws; ++drawn) {
    const auto place = static_cast<uint32_t>(rng.Uniform(candidates.size()));
    if (place < candidates.size() && candidates.Usable(place)) return Choice{place, 0, drawn, "at random"};
  }
  return LeastOf(candidates, rng, "at random", [](uint32_t) { return 0.0; });
}

std::optional<Choice> PickWeighted(const Candidates& candidates, const PickFacts&, ModelCell& cell,
                                   scheduler::Rng&) {
  std::optional<Choice> best;
  double total = 0;
  const absl::MutexLock lock(&cell.mutex);
  for (uint32_t place = 0; place < candidates.size(); ++place) {
    if (!candidates.Usable(place)) continue;
    const double weight = candidates.weight(place);
    total += weight;
    cell.credit[place] += weight;
    if (!best || cell.credit[place] > best->score) {
      best = Choice{place, cell.credit[place], candidates.size(), "most credit by weight"};
    }
  }
  if (best) cell.credit[best->place] -= total;
  return best;
}

std::optional<Choice> PickPowerOfTwo(const Candidates& candidates, const PickFacts& facts, ModelCell&,
                                     scheduler::Rng& rng) {
  RandomPair pair;
  uint32_t looked_at = 0;
  while (pair.size() < 2 && looked_at < kMaxDraws) {
    const auto place = static_cast<uint32_t>(rng.Uniform(candidates.size()));
    ++looked_at;
    if (place < candidates.size() && !pair.Holds(place) && candidates.Usable(place)) pair.Offer(place, rng);
  }
  if (pair.size() < 2) {
    pair = RandomPair();
    for (uint32_t place = 0; place < candidates.size(); ++place) {
      if (candidates.Usable(place)) pair.Offer(place, rng);
    }
    looked_at += candidates.size();
  }
  if (pair.size() == 0) return std::nullopt;
  uint32_t best = pair[0];
  if (pair.size() == 2) {
    const double first = candidates.LoadWith(pair[0], facts);
    const double second = candidates.LoadWith(pair[1], facts);
    if (second < first || (second == first && rng.Uniform(2) == 0)) best = pair[1];
  }
  return Choice{best, candidates.LoadWith(best, facts), looked_at, "less loaded of two random replicas"};
}

std::optional<Choice> PickLeastLoad(const Candidates& candidates, const PickFacts& facts, ModelCell&,
                                    scheduler::Rng& rng) {
  return LeastOf(candidates, rng, "fewest outstanding tokens per weight",
                 [&](uint32_t place) { return candidates.LoadWith(place, facts); });
}

std::optional<Choice> PickLeastRequests(const Candidates& candidates, const PickFacts&, ModelCell&,
                                        scheduler::Rng& rng) {
  return LeastOf(candidates, rng, "fewest requests per weight", [&](uint32_t place) {
    return static_cast<double>(candidates.state(place).load.requests() + 1) / candidates.weight(place);
  });
}

}  // namespace router
