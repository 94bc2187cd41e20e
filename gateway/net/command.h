// RunCommand: runs a short program of the system and returns its exit code and output. Blocks; call it off
// the loop. After `patience` it kills the program's process group.
#pragma once

#include <absl/status/statusor.h>

#include <string>
#include <vector>

#include "conf/time.h"

namespace gateway::net {

struct CommandOutput {
  int exit_code = 0;
  std::string text;  // stdout and stderr, in the order written
};

inline constexpr size_t kMaxCommandOutput = size_t{1} << 20;  // writes beyond it fail

// NotFound: no such program in this process's PATH. DeadlineExceeded; Unavailable.
absl::StatusOr<CommandOutput> RunCommand(const std::vector<std::string>& words, conf::Duration patience);

}  // namespace gateway::net
