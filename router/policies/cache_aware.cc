#include "router/policies/cache_aware.h"

#include <algorithm>

#include "router/policies/least_of.h"

namespace router {

std::optional<Choice> PickCacheAware(const Candidates& candidates, const PickFacts& facts, ModelCell&,
                                     scheduler::Rng& rng) {
  const CacheAwareLimits& limits = candidates.spec().cache_aware;
  const auto requests = [&](uint32_t place) {
    return static_cast<double>(candidates.state(place).load.requests());
  };
  std::optional<Choice> least = LeastOf(candidates, rng, "fewest requests", requests);
  if (!least) return least;
  double most = least->score;
  for (uint32_t place = 0; place < candidates.size(); ++place) {
    if (candidates.Usable(place)) most = std::max(most, requests(place));
  }
  if (most - least->score > limits.imbalanced_by && most > limits.imbalanced_times * least->score)
    return least;
  for (const PrefixMatch& match : facts.cached) {
    if (static_cast<double>(match.tokens) <= limits.match * static_cast<double>(facts.prompt_tokens)) break;
    const std::optional<uint32_t> place = candidates.PlaceOf(match.replica);
    if (!place || !candidates.Usable(*place)) continue;
    return Choice{*place, static_cast<double>(match.tokens), candidates.size(), "holds most of the prompt"};
  }
  return least;
}

}  // namespace router
