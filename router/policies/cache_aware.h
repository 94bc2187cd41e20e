// cache-aware: the rule of SGLang's router. While the pool is balanced, the replica that holds the longest
// part of the prompt, if that is more than half of it; else the replica with the fewest requests. The pool is
// imbalanced when its most loaded replica has over 32 requests more than the least loaded and over 1.1 times
// as many. A model may have other limits. Looks at every replica: O(replicas).
#pragma once

#include "router/candidates.h"

namespace router {

std::optional<Choice> PickCacheAware(const Candidates& candidates, const PickFacts& facts, ModelCell& cell,
                                     scheduler::Rng& rng);

}  // namespace router
