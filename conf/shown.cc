#include "conf/shown.h"

#include <absl/strings/ascii.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

namespace conf {
namespace {

using std::chrono::days;
using std::chrono::duration_cast;
using std::chrono::hours;
using std::chrono::minutes;
using std::chrono::seconds;

// A character of UTF-8 that controls a terminal or is invisible.
struct Hidden {
  size_t bytes = 0;  // 0: it is none
  uint32_t code = 0;
};

Hidden HiddenAt(std::string_view text) {
  const auto byte = [&](size_t i) {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : uint32_t{0};
  };
  const auto within = [](uint32_t code, uint32_t first, uint32_t last) {
    return code >= first && code <= last;
  };
  const uint32_t first = byte(0);
  if (first < 0x20 || first == 0x7f) return {1, first};
  const uint32_t two = (first & 0x1f) << 6 | (byte(1) & 0x3f);
  if ((first & 0xe0) == 0xc0 && (within(two, 0x80, 0x9f) || two == 0x61c)) return {2, two};
  const uint32_t three = (first & 0x0f) << 12 | (byte(1) & 0x3f) << 6 | (byte(2) & 0x3f);
  const bool hides = within(three, 0x200b, 0x200f) || within(three, 0x2028, 0x202e) ||
                     within(three, 0x2060, 0x2069) || three == 0xfeff;
  if ((first & 0xf0) == 0xe0 && text.size() >= 3 && hides) return {3, three};
  return {};
}

// "1.21s": at most three digits of a unit.
std::string Decimal(double value, std::string_view unit) {
  std::string out = fmt::format("{:.{}f}", value, value < 10 ? 2 : value < 100 ? 1 : 0);
  if (out.find('.') != std::string::npos) {
    out.erase(out.find_last_not_of('0') + 1);
    if (out.ends_with('.')) out.pop_back();
  }
  return out.append(unit);
}

}  // namespace

std::string Visible(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size();) {
    const Hidden hidden = HiddenAt(text.substr(i));
    if (hidden.bytes == 0) {
      out += text[i++];
      continue;
    }
    out += hidden.bytes == 1 ? fmt::format("\\x{:02x}", hidden.code) : fmt::format("\\u{:04x}", hidden.code);
    i += hidden.bytes;
  }
  return out;
}

std::string OnlyPrintable(std::string text) {
  std::erase_if(text, [](char c) { return !absl::ascii_isprint(static_cast<unsigned char>(c)); });
  return text;
}

std::string InWords(Duration value) {
  if (value < Duration::zero())
    return value == Duration::min() ? "-" + InWords(Duration::max()) : "-" + InWords(-value);
  constexpr std::array<std::pair<Duration, std::string_view>, 4> kWhole = {
      {{days(1), "d"}, {hours(1), "h"}, {minutes(1), "m"}, {seconds(1), "s"}}};
  for (const auto& [unit, name] : kWhole) {
    if (value >= unit && value % unit == Duration::zero() && (value < 100 * unit || unit == days(1)))
      return fmt::format("{}{}", value / unit, name);
  }
  const auto n = static_cast<double>(value.count());
  if (value == Duration::zero()) return "0s";
  if (n < 1e3) return Decimal(n, "ns");
  if (n < 999.5e3) return Decimal(n / 1e3, "us");
  if (n < 999.5e6) return Decimal(n / 1e6, "ms");
  if (n < 59.95e9) return Decimal(n / 1e9, "s");
  const int64_t whole = std::llround(n / 1e9);
  if (whole < 3600) return fmt::format("{}m{:02}s", whole / 60, whole % 60);
  if (whole < 86'400) return fmt::format("{}h{:02}m", whole / 3600, whole % 3600 / 60);
  return fmt::format("{}d{:02}h", whole / 86'400, whole % 86'400 / 3600);
}

std::string Counted(uint64_t count, std::string_view noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

}  // namespace conf
