#include "router/policies/least_requests.h"

#include "router/policies/least_of.h"

namespace router {

std::optional<Choice> PickLeastRequests(const Candidates& candidates, const PickFacts&, ModelCell&,
                                        scheduler::Rng& rng) {
  return LeastOf(candidates, rng, "fewest requests per weight", [&](uint32_t place) {
    return static_cast<double>(candidates.state(place).load.requests() + 1) / candidates.weight(place);
  });
}

}  // namespace router
