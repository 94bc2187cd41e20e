// kv-cost: the rule of NVIDIA Dynamo's KV router at temperature 0: the fewest blocks to compute plus blocks
// in use, this request's included; ties at random. Looks at every replica: O(replicas).
#pragma once

#include "router/candidates.h"

namespace router {

std::optional<Choice> PickKvCost(const Candidates& candidates, const PickFacts& facts, ModelCell& cell,
                                 scheduler::Rng& rng);

}  // namespace router
