// One cache as large as all: what routing is compared with.
#pragma once

#include <cstdint>
#include <span>

#include "router/sim/world.h"

namespace router::sim {

// The share of prompt tokens that one LRU cache of so many blocks would have held, every request being
// computed the moment it arrives: what no routing over caches of that size in all is likely to exceed.
double SharedCacheHitRatio(std::span<const Request> requests, uint64_t blocks);

}  // namespace router::sim
