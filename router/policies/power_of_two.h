// power-of-two: the less loaded of two replicas drawn at random (Mitzenmacher). Constant time while most are
// usable.
#pragma once

#include "router/pick.h"

namespace router {

std::optional<Choice> PickPowerOfTwo(const Candidates& candidates, const PickFacts& facts, ModelCell& cell,
                                     scheduler::Rng& rng);

}  // namespace router
