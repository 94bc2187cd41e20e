// Starting a run as a process: its command and environment, made of what was asked, and the steps of the
// start, in an order that is safe when the gateway is killed between any two of them.
//
// The only place where processes of runs are started.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "plugins/devices/machine.h"
#include "plugins/launchers/launcher.h"
#include "plugins/launchers/placeholders.h"
#include "plugins/launchers/run_folder.h"
#include "plugins/launchers/run_host.h"
#include "plugins/launchers/run_user.h"

namespace plugins::launchers {

struct RunPlan {
  RunRecord record{};  // without the process
  std::vector<std::string> argv{};
  std::vector<std::string> env{};      // "NAME=value"
  std::string search_path{};           // its PATH
  std::vector<std::string> secrets{};  // values of its environment that nothing may show
};

// InvalidArgument, in words for the author of the run's command. Asks nothing of the system.
// `user`: the user of the run; null: the gateway's user.
absl::StatusOr<RunPlan> PlanRun(RunSpec spec, std::span<const devices::LocalNode> nodes, const ListenAt& at,
                                const std::string& token, const RunUser* user);

// A shorter value ("1", "INFO") is no secret: hiding it would blot out words.
inline constexpr size_t kShortestSecret = 6;

struct StartOptions {
  conf::Duration grace{};  // for processes that outlive the run's first one
  uint64_t log_bytes = 0;  // limit of its log, and of the older part that is kept
  uint64_t log_floor = 0;  // bytes of the disk that it leaves free
  RunLimits limits{};
  int lock = -1;  // the store's
};

struct StartedRun {
  RunRecord record;  // with the process
  gateway::net::ProcessHandle wrapper;
  gateway::net::ProcessHandle first;  // of its processes; not set: it has ended already
  pid_t first_pid = 0;
};

// Blocks; off the loop. When it fails there is neither a process nor a record.
absl::StatusOr<StartedRun> StartRun(RunPlan plan, const RunFolder& folder, RunHost& host,
                                    const StartOptions& options, conf::TimePoint now);

// The variables of the gateway's own environment that runs get too.
std::span<const std::string_view> InheritedVariables();

}  // namespace plugins::launchers
