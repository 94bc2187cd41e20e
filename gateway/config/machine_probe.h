// The devices of this machine, for `scaling.cluster: probe`.
#pragma once

#include <absl/status/statusor.h>

#include <functional>

#include "plugins/devices/machine.h"

namespace gateway::config {

// NotFound: the machine has no known devices; the message lists the tools that were tried.
using MachineProbe = std::function<absl::StatusOr<plugins::devices::MachineCluster>()>;

// Probes once in the life of the process, because running work refers to devices by their places at that
// time. Blocks for as long as the vendors' tools take.
absl::StatusOr<plugins::devices::MachineCluster> ProbeThisMachine();

// For commands that must not probe the machine.
absl::StatusOr<plugins::devices::MachineCluster> ProbeNothing();

}  // namespace gateway::config
