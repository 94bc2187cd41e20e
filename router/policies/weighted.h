// weighted: smooth weighted round robin (as in nginx): over any stretch of choices each usable replica has
// its share of them to within one, evenly spread. Looks at all of them under the model's short lock.
#pragma once

#include "router/pick.h"

namespace router {

std::optional<Choice> PickWeighted(const Candidates& candidates, const PickFacts& facts, ModelCell& cell,
                                   scheduler::Rng& rng);

}  // namespace router
