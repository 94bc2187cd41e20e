// Prints every problem of a configuration, or of a command's options.
#pragma once

#include <vector>

#include "conf/problem.h"
#include "gateway/api/field_problem.h"

namespace gateway::cli {

// Prints lines to standard error, or JSON to standard output. Returns the exit code.
int PrintProblems(const std::vector<conf::Problem>& problems, bool json);

// Each as a line of standard error, `tidegate: --OPTION: MESSAGE`. kUsage; kOk where there is none.
int PrintOptionProblems(const std::vector<FieldProblem>& problems);

}  // namespace gateway::cli
