// Probe: asks one vendor's tools for the devices of a machine.
//
// A machine without the vendor's library or command has none of its devices; that is no error. An answer that
// cannot be understood is named in `problems`, and the understood part of it counts. Nothing here throws.
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
  std::vector<std::string> lost{};  // UUIDs of the devices that do not work at all
};

struct Probe {
  std::string_view name;
  // Blocks, for as long as a driver takes to wake up: off the loop.
  std::function<Found()> look;
};

}  // namespace plugins::devices
