// All probes, in the order in which their devices take their places on the machine.
#pragma once

#include <vector>

#include "gateway/net/loop.h"
#include "plugins/devices/probe.h"

namespace plugins::devices {

std::vector<Probe> BuiltinProbes();

// What all of them find; each problem with its probe's name.
gateway::net::Task<Found> LookForDevices(gateway::net::Loop& loop,
                                         std::vector<Probe> probes = BuiltinProbes());

}  // namespace plugins::devices
