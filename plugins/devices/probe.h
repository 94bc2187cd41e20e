// Probe: asks one vendor's tools what a machine has.
//
// A machine without that vendor's devices has no library or command to ask: that is no device, not an error.
// Where there is something to ask and it cannot be understood, `problems` say so, and what was understood
// counts. Nothing here throws.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "plugins/devices/device.h"

namespace plugins::devices {

struct Found {
  std::vector<Device> devices{};  // in the vendor's own order
  std::vector<std::string> problems{};
  std::vector<std::string> lost{};  // what of the devices does not work at all: their UUIDs
};

struct Probe {
  std::string_view name;
  // Blocks, for as long as a driver takes to wake up: off the loop.
  std::function<Found()> look;
};

}  // namespace plugins::devices
