// random: any usable replica, whatever its weight. Constant time while most are usable.
#pragma once

#include "router/pick.h"

namespace router {

std::optional<Choice> PickRandom(const Candidates& candidates, const PickFacts& facts, ModelCell& cell,
                                 scheduler::Rng& rng);

}  // namespace router
