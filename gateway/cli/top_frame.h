// What `tidegate top` shows, as lines: the models with what they are asked for and how fast they answer,
// their replicas, the jobs beside them, who holds which device, and what was done last and why.
//
// Pure: what a gateway said goes in, lines come out. Texts are shown without control characters, whatever an
// engine or a name holds.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "conf/time.h"

namespace gateway::cli {

// What a gateway says of itself at one moment: rows of the admin API's lists as they came.
struct Standing {
  std::string where;
  conf::TimePoint at{};
  std::vector<std::string> degraded{};
  std::vector<nlohmann::ordered_json> traffic{};
  std::vector<nlohmann::ordered_json> scaling{};
  std::vector<nlohmann::ordered_json> replicas{};
  std::vector<nlohmann::ordered_json> nodes{};
  std::vector<nlohmann::ordered_json> jobs{};
  std::vector<nlohmann::ordered_json> actions{};  // the last one first
  std::string no_actions{};                       // why there are none to be seen; empty: they are
};

enum class Style : uint8_t { kPlain, kTitle, kDim, kGood, kWarn, kBad, kHolder };

struct Span {
  std::string text;
  Style style = Style::kPlain;
  uint32_t holder = 0;  // kHolder: whose; each has a colour of its own, as far as there are enough
};
using Line = std::vector<Span>;

std::vector<Line> FrameOf(const Standing& standing);

// Characters `from` to `from + width` of a line; width 0: all of it. With `color`, in the escapes of a
// terminal.
std::string Draw(const Line& line, size_t from, size_t width, bool color);

// "850ms", "1.20s", "12s", "3m20s", "2h05m", "3d04h".
std::string ShortDuration(conf::Duration duration);

}  // namespace gateway::cli
