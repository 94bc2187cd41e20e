// Prints every problem of a configuration.
#pragma once

#include <vector>

#include "conf/problem.h"

namespace gateway::cli {

// Prints lines to standard error, or JSON to standard output. Returns the exit code.
int PrintProblems(const std::vector<conf::Problem>& problems, bool json);

}  // namespace gateway::cli
