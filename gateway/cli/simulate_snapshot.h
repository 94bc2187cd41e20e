// `tidegate simulate --snapshot`: a planning decision made again, from the state that it was made from.
#pragma once

#include <cstdint>
#include <string>

namespace gateway::cli {

struct SnapshotReplay {
  std::string snapshot;  // a file
  std::string policy;    // a file; empty: the defaults
  uint64_t seed = 1;
  std::string explain;  // the id of a job that waits
  bool json = false;
};

// Prints the plan, or why the job waits; the exit code.
int ReplaySnapshot(const SnapshotReplay& replay);

}  // namespace gateway::cli
