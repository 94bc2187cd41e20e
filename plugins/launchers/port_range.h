// The ports that the runs of a launcher may have. Pure.
#pragma once

#include <cstdint>
#include <set>
#include <string_view>

#include "conf/hash.h"

namespace plugins::launchers {

struct PortRange {
  uint16_t first = 0;
  uint16_t last = 0;

  // A port that is not taken; the same one for the same run, whatever the process, while that is free. 0: none is.
  uint16_t Pick(std::string_view run, const std::set<uint16_t>& taken) const {
    const uint64_t count = uint64_t{last} - first + 1;
    const uint64_t start = conf::Fnv1a(run) % count;
    for (uint64_t i = 0; i < count; ++i) {
      const auto port = static_cast<uint16_t>(first + (start + i) % count);
      if (!taken.contains(port)) return port;
    }
    return 0;
  }
};

}  // namespace plugins::launchers
