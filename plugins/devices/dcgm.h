// Readings from what exporters print as Prometheus text: NVIDIA's DCGM exporter (DCGM_FI_DEV_…), and the GPUs that
// node exporters with a textfile collector tell by the same names.
//
// Metrics that are missing are figures that are absent. A line of a MIG instance is passed over: figures are of
// whole devices.
#pragma once

#include <string_view>

#include "plugins/devices/reading.h"

namespace plugins::devices {

inline constexpr size_t kMaxExportedDevices = 1024;  // further ones are left out, and a problem says so

// Devices by their UUIDs, in the order in which they come. `host` is the label Hostname, or node or instance
// where there is none, without a port.
Readings ParseDcgm(std::string_view text);

}  // namespace plugins::devices
