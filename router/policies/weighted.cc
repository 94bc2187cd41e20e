#include "router/policies/weighted.h"

namespace router {

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

}  // namespace router
