// tidegate policy diff: what a change of a model's policy would have done over the last hour, beside the
// policy that runs.
#pragma once

#include <memory>
#include <string>

#include "gateway/cli/admin_client.h"

namespace gateway::cli {

struct PolicyDiffOptions {
  AdminOptions admin;
  std::string file;
  std::string cold_start;  // a duration; empty: as it was measured
};

// The exit code.
int DiffPolicies(const PolicyDiffOptions& options);

}  // namespace gateway::cli
