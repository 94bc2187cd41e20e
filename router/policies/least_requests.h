// least-requests: the replica with the fewest requests that this process has there, per unit of weight; ties
// at random. Looks at all of them: O(replicas).
#pragma once

#include "router/pick.h"

namespace router {

std::optional<Choice> PickLeastRequests(const Candidates& candidates, const PickFacts& facts, ModelCell& cell,
                                        scheduler::Rng& rng);

}  // namespace router
