// What somebody would run who knows the traffic that will come.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "router/sim/world.h"
#include "scheduler/engine/model.h"

namespace router::sim {

// By second: the replicas that keep the work that arrives within `bucket` seconds (the present one, and the
// next) at `utilization`, at least one.
std::vector<uint32_t> PlanKnowing(std::span<const Request> requests, const scheduler::engine::Profile& engine,
                                  double hits, double utilization, uint32_t bucket, uint32_t most);

}  // namespace router::sim
