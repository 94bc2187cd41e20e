// tidegate audit erase-content.
#pragma once

#include "gateway/cli/commands.h"

namespace gateway::cli {

void AddEraseContent(CLI::App& audit, Run& run);

}  // namespace gateway::cli
