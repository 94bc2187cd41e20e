// tidegate simulate fill: how much of the cluster each placement fills as work keeps arriving, without time.
#pragma once

#include <CLI/CLI.hpp>

#include "gateway/cli/commands.h"

namespace gateway::cli {

// Adds the command to `tidegate simulate`.
void AddSimulateFill(CLI::App& simulate, Run& run);

}  // namespace gateway::cli
