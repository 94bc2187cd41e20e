// What makes a process see the devices that it was given, and no others: the variables of each vendor's
// runtime. They are a courtesy that every engine keeps, not a wall. A share of a device below the whole is
// the planner's accounting alone.
#pragma once

#include <absl/status/statusor.h>

#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "plugins/devices/device.h"
#include "plugins/launchers/launcher.h"

namespace plugins::launchers {

// For a machine with `devices` in their places. InvalidArgument for a grant of what is not there: a place, a
// kind, an instance of a device that is cut, or a whole device that is.
absl::StatusOr<std::vector<std::pair<std::string, std::string>>> VisibleDevices(
    const Grant& grant, std::span<const devices::Device> devices);

// Whether the launcher sets it, so that nobody else may.
bool IsVisibilityVariable(std::string_view name);

}  // namespace plugins::launchers
