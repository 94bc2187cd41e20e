// cache-aware: the law of SGLang's router. Unless the pool is imbalanced (its most loaded replica has more
// than 32 requests more than the least loaded, and more than 1.1 times as many), the holder of more than half
// of the prompt, the longest first; else the replica with the fewest requests. Looks at all of them:
// O(replicas). A model may have other limits.
#pragma once

#include "router/pick.h"

namespace router {

std::optional<Choice> PickCacheAware(const Candidates& candidates, const PickFacts& facts, ModelCell& cell,
                                     scheduler::Rng& rng);

}  // namespace router
