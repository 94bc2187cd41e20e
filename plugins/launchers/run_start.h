// Starting a run as a process: what it runs, made of what was asked, and the steps in the order that makes it
// safe to be killed between any two of them.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "gateway/net/child_process.h"
#include "plugins/devices/machine.h"
#include "plugins/launchers/launcher.h"
#include "plugins/launchers/run_folder.h"

namespace plugins::launchers {

struct RunPlan {
  RunRecord record{};  // without the process
  std::vector<std::string> argv{};
  std::vector<std::string> env{};  // "NAME=value"
  std::string search_path{};       // its PATH
  // Values that it was given and that nothing may show.
  std::vector<std::string> secrets{};
};

// InvalidArgument, in words for whoever wrote it. Nothing is asked of the system.
absl::StatusOr<RunPlan> PlanRun(RunSpec spec, std::span<const devices::LocalNode> nodes, uint16_t port,
                                const std::string& token);

// What is shorter ("1", "INFO") would blot out words.
inline constexpr size_t kShortestSecret = 6;

struct StartedRun {
  RunRecord record;  // with the process
  gateway::net::ProcessHandle process;
};

// Blocks; off the loop. When it fails there is neither a process nor a record. `lock` is the store's.
absl::StatusOr<StartedRun> StartRun(RunPlan plan, const RunFolder& folder, int lock, conf::TimePoint now);

// The gateway's own variables that runs get too.
std::span<const std::string_view> InheritedVariables();

}  // namespace plugins::launchers
