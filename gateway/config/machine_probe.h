// What this machine has, for `scaling.cluster: probe`.
#pragma once

#include <absl/status/statusor.h>

#include <functional>

#include "plugins/devices/machine.h"

namespace gateway::config {

// NotFound: it has no devices, or none that anybody knows of; the message says what was tried.
using MachineProbe = std::function<absl::StatusOr<plugins::devices::MachineCluster>()>;

// Looks once in a process's life: what runs on devices goes by the places that they had then. Blocks for as
// long as the vendors' tools take.
absl::StatusOr<plugins::devices::MachineCluster> ProbeThisMachine();

// Where a machine is not to be looked at.
absl::StatusOr<plugins::devices::MachineCluster> ProbeNothing();

}  // namespace gateway::config
