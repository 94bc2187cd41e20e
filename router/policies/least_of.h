// The usable candidate of the lowest score, ties at random: shared by the policies that look at every
// replica.
#pragma once

#include "router/candidates.h"

namespace router {

// `score`: a function of the place, called for usable candidates only.
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
