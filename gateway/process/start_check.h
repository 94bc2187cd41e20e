// What would keep `serve` from starting on this machine, or from doing all that the configuration says: for
// `tidegate check`, before anything is started. Changes nothing; a port is taken for a moment.
//
// Main thread.
#pragma once

#include <absl/status/status.h>

#include <string>
#include <vector>

#include "gateway/config/config.h"

namespace gateway {

struct StartFinding {
  std::string pointer;  // of the option
  std::string value;
  std::string message;
  bool stops = false;  // serve does not start; else it starts, and something is missing
};

// Whether the ports of the configuration are free; Unavailable names the process that has one. Asked before the
// process gives up its rights: without them it may not examine a gateway, which keeps its memory private.
absl::Status CheckPortsFree(const Config& config);

// In the order of the configuration. What a gateway of the same state_dir holds while it runs is no finding.
std::vector<StartFinding> CheckStart(const Config& config);

}  // namespace gateway
