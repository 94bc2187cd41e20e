// epp: the scorers of llm-d's endpoint picker with its default weights, unless the model has others: queue 2,
// KV cache 2, prefix 3, and for LoRA adapters lora-affinity 1 (loaded 1, a free slot 0.8, loading 0.6). The
// queue scores 1 at the pool's shortest and 0 at its longest, the KV cache scores its free part, the prefix
// the share of the prompt that the replica holds. The highest sum wins, ties at random. Like the original it
// reads the engines' telemetry. Looks at every replica: O(replicas).
#pragma once

#include "router/candidates.h"

namespace router {

std::optional<Choice> PickEpp(const Candidates& candidates, const PickFacts& facts, ModelCell& cell,
                              scheduler::Rng& rng);

}  // namespace router
