// tidegate simulate requests: recorded inference traffic on a pool of engine models, under one routing policy
// beside another, in virtual time.
#pragma once

#include <CLI/CLI.hpp>

#include "gateway/cli/commands.h"

namespace gateway::cli {

// Adds the command to `tidegate simulate`.
void AddSimulateRequests(CLI::App& simulate, Run& run);

}  // namespace gateway::cli
