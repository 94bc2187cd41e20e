// The scenarios of `tidegate simulate`: each policy, or a what-if beside the system as it is.
#pragma once

#include <vector>

#include "conf/problem.h"
#include "gateway/cli/simulate_input.h"

namespace gateway::cli {

// From the cluster as the files say and the trace; what is wrong with the options goes to `problems`.
void LoadScenarios(const SimulateInput& input, const scheduler::Cluster& cluster, SimulatedSystem& out,
                   std::vector<conf::Problem>& problems);

}  // namespace gateway::cli
