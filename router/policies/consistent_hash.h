// consistent-hash: requests of one session, or with one prompt beginning (PickFacts::affinity), go to one
// replica, by weighted rendezvous hashing, which moves no more of them than it must when replicas come and
// go. Bounded load (Mirrokni, Thorup, Zadimoghaddam): who has more than its bound, 1.25 times its share of
// the requests unless the model says otherwise, is passed over. Requests without affinity go to any. Looks at
// all replicas: O(replicas).
#pragma once

#include "router/pick.h"

namespace router {

std::optional<Choice> PickConsistentHash(const Candidates& candidates, const PickFacts& facts,
                                         ModelCell& cell, scheduler::Rng& rng);

}  // namespace router
