// least-load: the replica with the fewest outstanding tokens per unit of weight, this request's included,
// ties at random. Looks at all of them: O(replicas).
#pragma once

#include "router/pick.h"

namespace router {

std::optional<Choice> PickLeastLoad(const Candidates& candidates, const PickFacts& facts, ModelCell& cell,
                                    scheduler::Rng& rng);

}  // namespace router
