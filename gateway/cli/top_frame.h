// The lines that `tidegate top` shows: models with their demand and latencies, their replicas or configured
// endpoints, jobs, the holder of each device, and the last actions with their reasons.
//
// In a narrow terminal, tables leave out their least important columns, and reasons continue below their row,
// broken between words.
//
// Pure: rows of the admin API go in, lines come out. Control characters in texts are replaced, whatever an
// engine or a job has put there.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "conf/time.h"

namespace gateway::cli {

// The state of a gateway at one moment: rows of the lists of the admin API.
struct Standing {
  std::string where;
  conf::TimePoint at{};
  std::vector<std::string> degraded{};
  std::vector<nlohmann::ordered_json> traffic{};
  std::vector<nlohmann::ordered_json> scaling{};
  std::vector<nlohmann::ordered_json> endpoints{};
  std::vector<nlohmann::ordered_json> models{};
  std::vector<nlohmann::ordered_json> replicas{};
  std::vector<nlohmann::ordered_json> nodes{};
  std::vector<nlohmann::ordered_json> jobs{};
  std::vector<nlohmann::ordered_json> actions{};  // the last one first
  std::string no_actions{};                       // why there are none to show; empty: there are
};

enum class Style : uint8_t { kPlain, kTitle, kDim, kGood, kWarn, kBad, kHolder };

struct Span {
  std::string text;
  Style style = Style::kPlain;
  uint32_t holder = 0;  // kHolder: its number; each has its own color while there are enough
};
using Line = std::vector<Span>;

// For a terminal of this many columns; 0: whole tables, however wide.
std::vector<Line> FrameOf(const Standing& standing, size_t width = 0);

// Characters `from` to `from + width` of a line; width 0: all of it. With `color`, in the escapes of a
// terminal.
std::string Draw(const Line& line, size_t from, size_t width, bool color);

// "850ms", "1.20s", "12s", "3m20s", "2h05m", "3d04h".
std::string ShortDuration(conf::Duration duration);

}  // namespace gateway::cli
