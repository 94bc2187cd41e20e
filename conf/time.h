// Time as every room speaks it: nanoseconds since the Unix epoch, on a clock that never steps back.
//
// The shell owns the clock (wall time at start plus steady time since). Everything that decides takes a
// TimePoint as an argument, so the same code runs in production, in the simulator and under a test's clock.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace conf {

using Duration = std::chrono::nanoseconds;
using TimePoint = std::chrono::time_point<std::chrono::system_clock, Duration>;

// "250us", "1.5s", "10m", "2h", "7d"; nothing for text that is not a number with a unit.
// "0" is accepted without one. Negative durations are refused.
std::optional<Duration> ParseDuration(std::string_view text);

// The shortest of ns, us, ms, s that keeps the value whole: "1500ms", "60s".
std::string FormatDuration(Duration value);

// RFC 3339 in UTC with microseconds: 2026-11-20T08:30:00.000000Z.
std::string FormatTime(TimePoint t);

// RFC 3339 with Z or an offset, or a bare date (midnight UTC).
std::optional<TimePoint> ParseTime(std::string_view text);

inline int64_t ToUnixMicros(TimePoint t) {
  return std::chrono::duration_cast<std::chrono::microseconds>(t.time_since_epoch()).count();
}
inline int64_t ToUnixNanos(TimePoint t) {
  return t.time_since_epoch().count();
}
// The nearest that a TimePoint can hold (the years 1677 to 2262): input may have any value.
inline TimePoint FromUnixMicros(int64_t us) {
  constexpr int64_t kMost = INT64_MAX / 1000;
  return TimePoint(std::chrono::microseconds(std::clamp(us, -kMost, kMost)));
}
// Whole ones.
inline int64_t ToMillis(Duration d) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(d).count();
}
inline double ToSeconds(Duration d) {
  return static_cast<double>(d.count()) * 1e-9;
}

}  // namespace conf
