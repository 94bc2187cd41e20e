// consistent-hash: requests of one session, or with the same prompt beginning (PickFacts::affinity), go to
// one replica, by weighted rendezvous hashing: as few of them as possible move when replicas come and go.
// With bounded load (Mirrokni, Thorup, Zadimoghaddam): a replica with more than its bound, by default 1.25
// times its fair share of the requests, is passed over. A request without affinity goes to a random replica.
// Looks at every replica: O(replicas).
#pragma once

#include "router/candidates.h"

namespace router {

std::optional<Choice> PickConsistentHash(const Candidates& candidates, const PickFacts& facts,
                                         ModelCell& cell, scheduler::Rng& rng);

}  // namespace router
