// The sizing plan of an oracle that knows the traffic in advance.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "router/sim/world.h"
#include "scheduler/engine/model.h"

namespace router::sim {

// Replicas for each second: as many as keep utilization at `utilization` for the work that arrives in the
// present and in the next bucket of `bucket` seconds; at least one, at most `most`.
std::vector<uint32_t> PlanKnowing(std::span<const Request> requests, const scheduler::engine::Profile& engine,
                                  double hits, double utilization, uint32_t bucket, uint32_t most);

}  // namespace router::sim
