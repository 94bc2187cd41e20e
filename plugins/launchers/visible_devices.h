// The environment variables by which a process sees its own devices and no others, for each vendor's runtime.
// Engines respect them; nothing enforces them. mps.h has what enforces a share of a device.
#pragma once

#include <absl/status/statusor.h>

#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "plugins/devices/machine.h"
#include "plugins/launchers/launcher.h"

namespace plugins::launchers {

// For a machine of these nodes. InvalidArgument for a grant that does not fit them: a missing node, place,
// kind or instance, or the whole of a device that is cut. A grant may leave out the name of an only node.
absl::StatusOr<std::vector<std::pair<std::string, std::string>>> VisibleDevices(
    const DeviceGrant& grant, std::span<const devices::LocalNode> nodes);

// Whether the launcher sets the variable, so that a run's own environment may not.
bool IsVisibilityVariable(std::string_view name);

}  // namespace plugins::launchers
