// A recorded trace as the simulation's requests, at any rate.
#pragma once

#include <absl/status/statusor.h>

#include <string>
#include <vector>

#include "bench/replay/trace.h"
#include "router/sim/world.h"

namespace bench::policies {

// Each of a trace's blocks becomes blocks of router::sim::kBlockTokens, chained. A trace without blocks
// shares nothing.
absl::StatusOr<std::vector<router::sim::Request>> ReadRequests(const std::string& path, TraceFormat format);

// The same requests, `factor` times as fast.
std::vector<router::sim::Request> Faster(std::vector<router::sim::Request> requests, double factor);

}  // namespace bench::policies
