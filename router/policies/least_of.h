// The candidate of the lowest score, of equals any: what the policies that look at everybody share.
#pragma once

#include "router/pick.h"

namespace router {

// `score` is a function of the place; only usable ones are asked.
template <class Score>
std::optional<Choice> LeastOf(const Candidates& candidates, scheduler::Rng& rng, std::string_view reason,
                              Score&& score) {
  std::optional<Choice> best;
  uint64_t ties = 0;
  for (uint32_t place = 0; place < candidates.size(); ++place) {
    if (!candidates.Usable(place)) continue;
    const double value = score(place);
    if (best && value > best->score) continue;
    ties = best && value == best->score ? ties + 1 : 1;
    if (ties == 1 || rng.Uniform(ties) == 0) best = Choice{place, value, candidates.size(), reason};
  }
  return best;
}

}  // namespace router
