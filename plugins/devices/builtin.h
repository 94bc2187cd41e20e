// All probes, in the order in which their devices take their places on the machine.
#pragma once

#include <vector>

#include "plugins/devices/probe.h"

namespace plugins::devices {

std::vector<Probe> BuiltinProbes();

// The devices that all probes find; each problem names its probe. Blocks for as long as the vendors' tools
// take.
Found ProbeDevices(const std::vector<Probe>& probes = BuiltinProbes());

}  // namespace plugins::devices
