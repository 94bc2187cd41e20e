#include "conf/time.h"

#include <absl/time/time.h>
#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cmath>
#include <utility>

#include "conf/text.h"

namespace conf {
namespace {

constexpr std::array<std::pair<std::string_view, double>, 8> kUnits = {{{"ns", 1.0},
                                                                        {"us", 1e3},
                                                                        {"ms", 1e6},
                                                                        {"s", 1e9},
                                                                        {"m", 60e9},
                                                                        {"h", 3600e9},
                                                                        {"d", 86400e9},
                                                                        {"w", 7 * 86400e9}}};

}  // namespace

std::optional<Duration> ParseDuration(std::string_view text) {
  double number = 0;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc{} || number < 0 || !std::isfinite(number)) return std::nullopt;
  const std::string_view unit(rest, static_cast<size_t>(end - rest));
  if (unit.empty()) return number == 0 ? std::optional(Duration::zero()) : std::nullopt;
  for (const auto& [name, nanos] : kUnits) {
    if (unit != name) continue;
    const double total = number * nanos;
    if (total >= 9.2e18) return std::nullopt;
    return Duration(static_cast<int64_t>(std::llround(total)));
  }
  return std::nullopt;
}

std::string FormatDuration(Duration value) {
  const int64_t n = value.count();
  if (n == 0) return "0s";
  if (n % 1'000'000'000 == 0) return fmt::format("{}s", n / 1'000'000'000);
  if (n % 1'000'000 == 0) return fmt::format("{}ms", n / 1'000'000);
  if (n % 1'000 == 0) return fmt::format("{}us", n / 1'000);
  return fmt::format("{}ns", n);
}

std::string FormatTime(TimePoint t) {
  return absl::FormatTime("%Y-%m-%dT%H:%M:%E6SZ", absl::FromUnixNanos(t.time_since_epoch().count()),
                          absl::UTCTimeZone());
}

std::optional<TimePoint> ParseTime(std::string_view text) {
  absl::Time parsed;
  for (const char* format : {"%Y-%m-%dT%H:%M:%E*S%Ez", "%Y-%m-%d %H:%M:%E*S%Ez", "%Y-%m-%d"}) {
    if (absl::ParseTime(format, Abseil(text), &parsed, nullptr)) {
      return TimePoint(Duration(absl::ToUnixNanos(parsed)));
    }
  }
  return std::nullopt;
}

}  // namespace conf
