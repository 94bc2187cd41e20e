// tidegate simulate traffic: recorded inference traffic on replicas that an autoscaler starts and stops, by a
// scaling policy beside the laws that others use, in virtual time.
#pragma once

#include <CLI/CLI.hpp>

#include "gateway/cli/commands.h"

namespace gateway::cli {

// Adds the command to `tidegate simulate`.
void AddSimulateTraffic(CLI::App& simulate, Run& run);

}  // namespace gateway::cli
