// AMD GPUs by `rocm-smi --json`. Its keys changed their case between releases, and warnings may precede the object.
#pragma once

#include <string>
#include <string_view>

#include "conf/time.h"
#include "plugins/devices/probe.h"

namespace plugins::devices {

inline constexpr conf::Duration kRocmSmiPatience = std::chrono::seconds(20);

Found ProbeRocmSmi(const std::string& command = "rocm-smi", conf::Duration patience = kRocmSmiPatience);
Found ParseRocmSmi(std::string_view text);

}  // namespace plugins::devices
