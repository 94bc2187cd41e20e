// Readings from the Prometheus text of exporters: NVIDIA's DCGM exporter (DCGM_FI_DEV_…), and node exporters whose
// textfile collector reports GPUs by the same names.
//
// A missing metric is an absent figure. A line of a MIG instance is skipped: figures are those of whole devices.
#pragma once

#include <string_view>

#include "plugins/devices/reading.h"

namespace plugins::devices {

inline constexpr size_t kMaxExportedDevices = 1024;  // further ones are left out, and a problem says so

// Devices by their UUIDs, in the order in which they come. `host` is the label Hostname, or node or instance
// where there is none, without a port.
Readings ParseDcgm(std::string_view text);

}  // namespace plugins::devices
