// One cache as large as all replicas' caches together: a bound for routing.
#pragma once

#include <cstdint>
#include <span>

#include "router/sim/world.h"

namespace router::sim {

// The share of prompt tokens that one LRU cache of `blocks` blocks holds, if every request is computed when it
// arrives. Routing over caches of the same total size hardly exceeds this share.
double SharedCacheHitRatio(std::span<const Request> requests, uint64_t blocks);

}  // namespace router::sim
