// `tidegate simulate --snapshot`: repeats a planning decision from the state that it was based on.
#pragma once

#include <cstdint>
#include <string>

#include "gateway/cli/simulate/input.h"

namespace gateway::cli {

struct SnapshotReplay {
  std::string snapshot;  // a file
  uint64_t seed = 1;
  std::string explain;  // the id of a job that waits
  bool json = false;
};

// Prints the plan under the input's policy, or why the job waits; the exit code.
int ReplaySnapshot(const SimulateInput& input, const SnapshotReplay& replay);

}  // namespace gateway::cli
