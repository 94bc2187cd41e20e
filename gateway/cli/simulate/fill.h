// `tidegate simulate --until-allocated`: how much of the cluster a placement fills as work keeps arriving.
#pragma once

#include <cstdint>
#include <string>

#include "gateway/cli/simulate/system.h"

namespace gateway::cli {

struct FillRequest {
  std::string trace{};  // its name
  uint32_t seeds = 1;
  uint64_t first_seed = 1;
  bool json = false;
};

// Offers the trace's members in random order under each policy's placement; prints the share of devices that
// is allocated at each load. The exit code.
int FillUntilAllocated(const SimulatedSystem& system, const FillRequest& request);

}  // namespace gateway::cli
