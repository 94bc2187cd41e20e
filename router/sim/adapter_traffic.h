// Spreads recorded traffic over many LoRA adapters, conversation by conversation.
#pragma once

#include <cstdint>
#include <vector>

#include "router/sim/world.h"

namespace router::sim {

// Gives each request one of `adapters`; requests that begin alike get the same one. By Zipf's law: the k-th
// adapter is requested 1/k as often as the first. KV blocks of one adapter are of no use to another, so block
// hashes are salted by adapter.
void DealOut(uint32_t adapters, std::vector<Request>& requests);

}  // namespace router::sim
