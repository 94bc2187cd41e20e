// What would keep `serve` from starting on this machine, or from doing all that the configuration says: for
// `tidegate check`, before anything is started. Changes nothing; a port is taken for a moment.
//
// Main thread.
#pragma once

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

// In the order of the configuration. What a gateway of the same state_dir holds while it runs is no finding.
std::vector<StartFinding> CheckStart(const Config& config);

}  // namespace gateway
