// Ascend NPUs by `npu-smi info`, which prints a table for people: two rows for each chip, the first with its
// name and health, the second with its bus and memory. Older drivers number chips only within a card; the
// logical id that runtimes take is then the chip's place in the table.
#pragma once

#include <string>
#include <string_view>

#include "conf/time.h"
#include "plugins/devices/probe.h"
#include "plugins/devices/reading.h"

namespace plugins::devices {

inline constexpr conf::Duration kNpuSmiPatience = std::chrono::seconds(20);

Found ProbeNpuSmi(const std::string& command = "npu-smi", conf::Duration patience = kNpuSmiPatience);
Found ParseNpuSmi(std::string_view table);

// Power, temperature, use, memory and the processes of each chip, from the table of npu-smi. The keys are those of
// ProbeNpuSmi's devices. Without the command there are neither devices nor problems; the caller sets `at`.
Readings ReadNpuSmi(const std::string& command = "npu-smi", conf::Duration patience = kNpuSmiPatience);
Readings ParseNpuSmiReadings(std::string_view table);

}  // namespace plugins::devices
