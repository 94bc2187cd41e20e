// tidegate policy diff: the effect of a changed policy on a model's last hour, compared with the policy that
// runs.
#pragma once

#include <memory>
#include <string>

#include "gateway/cli/admin_client.h"

namespace gateway::cli {

struct PolicyDiffOptions {
  AdminOptions admin;
  std::string file;
  std::string cold_start;  // a duration; empty: the measured one
};

// The exit code.
int DiffPolicies(const PolicyDiffOptions& options);

}  // namespace gateway::cli
