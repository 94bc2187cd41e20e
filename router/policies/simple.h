// The policies that fit into a few lines. Those that look at every replica take O(replicas).
#pragma once

#include "router/candidates.h"

namespace router {

// round-robin: each usable replica in turn, whatever its weight. A turn that falls on an unusable replica is
// skipped, not given to its neighbour, so that a failed replica does not double another's share.
std::optional<Choice> PickRoundRobin(const Candidates& candidates, const PickFacts& facts, ModelCell& cell,
                                     scheduler::Rng& rng);

// random: any usable replica, whatever its weight. Constant time while most replicas are usable.
std::optional<Choice> PickRandom(const Candidates& candidates, const PickFacts& facts, ModelCell& cell,
                                 scheduler::Rng& rng);

// weighted: smooth weighted round robin, as in nginx: over any run of choices each usable replica has its
// share of them to within one, evenly spread. Looks at every replica, under the model's short lock.
std::optional<Choice> PickWeighted(const Candidates& candidates, const PickFacts& facts, ModelCell& cell,
                                   scheduler::Rng& rng);

// power-of-two: the less loaded of two random replicas (Mitzenmacher). Constant time while most are usable.
std::optional<Choice> PickPowerOfTwo(const Candidates& candidates, const PickFacts& facts, ModelCell& cell,
                                     scheduler::Rng& rng);

// least-load: the fewest outstanding tokens per unit of weight, this request's included; ties at random.
// Looks at every replica.
std::optional<Choice> PickLeastLoad(const Candidates& candidates, const PickFacts& facts, ModelCell& cell,
                                    scheduler::Rng& rng);

// least-requests: the fewest requests of this process per unit of weight; ties at random. Looks at every
// replica.
std::optional<Choice> PickLeastRequests(const Candidates& candidates, const PickFacts& facts, ModelCell& cell,
                                        scheduler::Rng& rng);

}  // namespace router
