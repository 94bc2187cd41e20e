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

#include "plugins/devices/machine.h"
#include "plugins/launchers/launcher.h"

namespace plugins::launchers {

// For a machine of these nodes. InvalidArgument for a grant of what is not there: a node, a place, a kind, an
// instance of a device that is cut, or a whole device that is. A grant may leave out the name of an only
// node.
absl::StatusOr<std::vector<std::pair<std::string, std::string>>> VisibleDevices(
    const Grant& grant, std::span<const devices::LocalNode> nodes);

// Whether the launcher sets it, so that nobody else may.
bool IsVisibilityVariable(std::string_view name);

}  // namespace plugins::launchers
