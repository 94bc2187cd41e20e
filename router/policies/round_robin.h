// round-robin: each usable replica in turn, whatever its weight. A turn that falls on an unusable replica is
// skipped, not given to its neighbour, so that a replica that is down doubles nobody's share.
#pragma once

#include "router/pick.h"

namespace router {

std::optional<Choice> PickRoundRobin(const Candidates& candidates, const PickFacts& facts, ModelCell& cell,
                                     scheduler::Rng& rng);

}  // namespace router
