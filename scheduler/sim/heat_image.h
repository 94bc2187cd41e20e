// A heat map as an image that a page can hold: a BMP of 16 shades, in base64.
//
// At most kHeatImageRows x kHeatImageColumns cells, 44 KB of text; larger maps are shrunk, a cell then being
// the mean of its neighbours.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "scheduler/sim/report.h"

namespace scheduler::sim {

inline constexpr size_t kHeatImageRows = 128;
inline constexpr size_t kHeatImageColumns = 512;
inline constexpr size_t kShades = 16;

// From empty to full, 0xRRGGBB; light to dark.
std::array<uint32_t, kShades> Shades();

// A `data:` address; empty for a map without cells. Row 0 is on top, time goes to the right.
std::string HeatImage(const HeatMap& heat);

}  // namespace scheduler::sim
