// All probes, in the order in which their devices take their places on the machine.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "conf/time.h"
#include "plugins/devices/probe.h"
#include "plugins/devices/reading.h"

namespace plugins::devices {

std::vector<Probe> BuiltinProbes();

// The devices that all probes find; each problem names its probe. Blocks for as long as the vendors' tools
// take.
Found ProbeDevices(const std::vector<Probe>& probes = BuiltinProbes());

// A tool that measures, and how: at 1 Hz, or as often as it bears.
struct Reader {
  std::string name;                 // of the tool
  Vendor vendor = Vendor::kNvidia;  // of its devices
  conf::Duration interval{};
  std::function<Readings()> read;  // blocks, maybe for good; on one thread
};
std::vector<Reader> BuiltinReaders();

}  // namespace plugins::devices
