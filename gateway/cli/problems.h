// Prints what is wrong with a configuration, all of it.
#pragma once

#include <vector>

#include "conf/problem.h"

namespace gateway::cli {

// To standard error as lines, or to standard output as JSON. Returns the exit code.
int PrintProblems(const std::vector<conf::Problem>& problems, bool json);

}  // namespace gateway::cli
