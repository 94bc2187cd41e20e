// epp: the scorers of llm-d's endpoint picker with its default weights, unless the model has its own: queue
// 2, KV cache 2, prefix 3, and for LoRA adapters lora-affinity 1: loaded 1, a free slot 0.8, loading 0.6. The
// queue's score falls from 1 at the shortest to 0 at the longest of the pool, the KV cache's is what is free,
// the prefix's is the share of the prompt that is held; the highest sum wins, ties at random. It goes by the
// engines' own telemetry, as its original does. Looks at all of them: O(replicas).
#pragma once

#include "router/pick.h"

namespace router {

std::optional<Choice> PickEpp(const Candidates& candidates, const PickFacts& facts, ModelCell& cell,
                              scheduler::Rng& rng);

}  // namespace router
