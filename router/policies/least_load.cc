#include "router/policies/least_load.h"

#include "router/policies/least_of.h"

namespace router {

std::optional<Choice> PickLeastLoad(const Candidates& candidates, const PickFacts& facts, ModelCell&,
                                    scheduler::Rng& rng) {
  return LeastOf(candidates, rng, "fewest outstanding tokens per weight",
                 [&](uint32_t place) { return candidates.CostOf(place, facts); });
}

}  // namespace router
