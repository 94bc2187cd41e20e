// Recorded traffic, as if it were of many LoRA adapters: conversations are dealt out among them.
#pragma once

#include <cstdint>
#include <vector>

#include "router/sim/world.h"

namespace router::sim {

// Gives each request one of `adapters`, those that begin alike the same one, by Zipf's law: the k-th is asked
// for 1/k as often as the first. What an adapter computes is nobody else's, so its blocks get hashes of their
// own.
void DealOut(uint32_t adapters, std::vector<Request>& requests);

}  // namespace router::sim
