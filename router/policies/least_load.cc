#include "router/policies/least_load.h"

namespace router {

std::optional<Choice> PickLeastLoad(const Candidates& candidates, const PickFacts& facts, ModelCell&,
                                    scheduler::Rng& rng) {
  std::optional<Choice> best;
  uint64_t ties = 0;
  for (uint32_t place = 0; place < candidates.size(); ++place) {
    if (!candidates.Usable(place)) continue;
    const double cost = candidates.CostOf(place, facts);
    if (best && cost > best->score) continue;
    ties = best && cost == best->score ? ties + 1 : 1;
    if (ties == 1 || rng.Uniform(ties) == 0) {
      best = Choice{place, cost, candidates.size(), "fewest outstanding tokens per weight"};
    }
  }
  return best;
}

}  // namespace router
