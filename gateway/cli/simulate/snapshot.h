// `tidegate policy replay`: repeats a planning decision from the state that it was based on.
#pragma once

#include <CLI/CLI.hpp>

#include "gateway/cli/commands.h"

namespace gateway::cli {

// Adds the command to `tidegate policy`.
void AddPolicyReplay(CLI::App& policy, Run& run);

}  // namespace gateway::cli
