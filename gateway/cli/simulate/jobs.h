// tidegate simulate jobs: runs recorded jobs in virtual time, under one policy or several beside each other.
#pragma once

#include <CLI/CLI.hpp>

#include "gateway/cli/commands.h"

namespace gateway::cli {

// Adds the command to `tidegate simulate`.
void AddSimulateJobs(CLI::App& simulate, Run& run);

}  // namespace gateway::cli
