#include "router/policies/power_of_two.h"

namespace router {
namespace {

constexpr uint32_t kMaxDraws = 16;

// Keeps two of the candidates offered to it, each pair being as likely as any other.
class Pair {
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

std::optional<Choice> PickPowerOfTwo(const Candidates& candidates, const PickFacts& facts, ModelCell&,
                                     scheduler::Rng& rng) {
  Pair pair;
  uint32_t looked_at = 0;
  while (pair.size() < 2 && looked_at < kMaxDraws) {
    const auto place = static_cast<uint32_t>(rng.Uniform(candidates.size()));
    ++looked_at;
    if (place < candidates.size() && !pair.Holds(place) && candidates.Usable(place)) pair.Offer(place, rng);
  }
  if (pair.size() < 2) {
    pair = Pair();
    for (uint32_t place = 0; place < candidates.size(); ++place) {
      if (candidates.Usable(place)) pair.Offer(place, rng);
    }
    looked_at += candidates.size();
  }
  if (pair.size() == 0) return std::nullopt;
  uint32_t best = pair[0];
  if (pair.size() == 2) {
    const double first = candidates.CostOf(pair[0], facts);
    const double second = candidates.CostOf(pair[1], facts);
    if (second < first || (second == first && rng.Uniform(2) == 0)) best = pair[1];
  }
  return Choice{best, candidates.CostOf(best, facts), looked_at, "less loaded of two at random"};
}

}  // namespace router
