// The input of `tidegate simulate jobs` and `fill`: a trace of jobs, and the clusters and policies that run it.
#pragma once

#include <string>
#include <vector>

#include "conf/problem.h"
#include "gateway/cli/simulate/input.h"
#include "gateway/cli/simulate/scenarios.h"
#include "scheduler/sim/world.h"

namespace gateway::cli {

struct SimulatedSystem {
  std::vector<Scenario> scenarios;  // one for each policy; a what-if stands behind the system as it is
  std::string what_if;              // "8 more nodes, quota nlp=64"; empty: nothing is changed
  sim::Trace trace;
};

// Reads the files and applies the options. Returns every problem; `out` is whole only when there is none. The
// report of the trace lists the rows that were left out.
std::vector<conf::Problem> Load(const SimulateInput& input, SimulatedSystem& out);

size_t Devices(const scheduler::Cluster& cluster);

}  // namespace gateway::cli
