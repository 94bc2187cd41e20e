// RunCommand: a short program's exit and what it printed, for asking a tool of the system. Blocks; call it
// off the loop. After `patience` it is killed with all that it started in its process group.
#pragma once

#include <absl/status/statusor.h>

#include <string>
#include <vector>

#include "conf/time.h"

namespace gateway::net {

struct CommandOutput {
  int exit_code = 0;
  std::string text;  // both outputs, in the order written
};

inline constexpr size_t kMaxCommandOutput = size_t{1} << 20;  // what comes after it fails to be written

// NotFound: there is no such program in this process's PATH. DeadlineExceeded; Unavailable.
absl::StatusOr<CommandOutput> RunCommand(const std::vector<std::string>& words, conf::Duration patience);

}  // namespace gateway::net
