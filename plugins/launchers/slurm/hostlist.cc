#include "plugins/launchers/slurm/hostlist.h"

#include <fmt/format.h>

#include <optional>

#include "conf/text.h"

namespace plugins::launchers::slurm {
namespace {

struct Range {
  uint32_t first = 0;
  uint32_t last = 0;
  size_t digits = 0;  // of the first, zeros in front included
};

// "3" or "001-016".
std::optional<Range> RangeOf(std::string_view text) {
  const size_t dash = text.find('-');
  const std::string_view low = text.substr(0, dash);
  const std::optional<uint32_t> first = conf::ReadNumber<uint32_t>(low);
  const std::optional<uint32_t> last =
      dash == std::string_view::npos ? first : conf::ReadNumber<uint32_t>(text.substr(dash + 1));
  if (!first || !last || *last < *first) return std::nullopt;
  return Range{*first, *last, low.size()};
}

// Takes the part before `separator` off `text`; all of it where there is none.
std::string_view TakeUntil(std::string_view& text, char separator) {
  const size_t at = text.find(separator);
  const std::string_view part = text.substr(0, at);
  text.remove_prefix(at == std::string_view::npos ? text.size() : at + 1);
  return part;
}

absl::Status Malformed(std::string_view text) {
  constexpr size_t kShown = 80;
  return absl::InvalidArgumentError(
      fmt::format("\"{}\" is not a list of hosts such as gpu[01-04]", text.substr(0, kShown)));
}

// The end of the name that begins `text`: a comma outside brackets. Nothing where brackets do not match.
std::optional<size_t> EndOfName(std::string_view text) {
  bool inside = false;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '[' || text[i] == ']') {
      if (inside == (text[i] == '[')) return std::nullopt;
      inside = !inside;
    }
    if (text[i] == ',' && !inside) return i;
  }
  if (inside) return std::nullopt;
  return text.size();
}

absl::Status TooLong() {
  return absl::InvalidArgumentError(fmt::format("the name of a host is longer than {} bytes", kMaxHostName));
}

// Puts every number of "1-3,7" behind every one of `names`.
absl::StatusOr<std::vector<std::string>> Multiply(const std::vector<std::string>& names,
                                                  std::string_view ranges) {
  std::vector<std::string> longer;
  for (const std::string& name : names) {
    std::string_view rest = ranges;
    do {
      const std::optional<Range> range = RangeOf(TakeUntil(rest, ','));
      if (!range) return Malformed(ranges);
      if (range->last - range->first >= kMaxHosts - longer.size()) {
        return absl::ResourceExhaustedError(fmt::format("a list of more than {} hosts", kMaxHosts));
      }
      if (name.size() + range->digits > kMaxHostName) return TooLong();
      for (uint64_t i = range->first; i <= range->last; ++i)
        longer.push_back(fmt::format("{}{:0{}}", name, i, range->digits));
    } while (!rest.empty());
  }
  return longer;
}

absl::StatusOr<std::vector<std::string>> ExpandName(std::string_view name) {
  std::vector<std::string> names(1);
  while (!name.empty()) {
    const size_t bracket = name.find('[');
    const std::string_view fixed = name.substr(0, bracket);
    for (std::string& built : names) {
      if (built.size() + fixed.size() > kMaxHostName) return TooLong();
      built.append(fixed);
    }
    if (bracket == std::string_view::npos) break;
    const size_t close = name.find(']', bracket);
    auto longer = Multiply(names, name.substr(bracket + 1, close - bracket - 1));
    if (!longer.ok()) return longer.status();
    names = *std::move(longer);
    name.remove_prefix(close + 1);
  }
  return names;
}

}  // namespace

absl::StatusOr<std::vector<std::string>> ExpandHosts(std::string_view text) {
  const std::string_view whole = text;
  std::vector<std::string> hosts;
  while (!text.empty()) {
    const std::optional<size_t> end = EndOfName(text);
    if (!end || *end == 0 || *end + 1 == text.size()) return Malformed(whole);
    auto names = ExpandName(text.substr(0, *end));
    if (!names.ok()) return names.status();
    if (names->size() > kMaxHosts - hosts.size()) {
      return absl::ResourceExhaustedError(fmt::format("a list of more than {} hosts", kMaxHosts));
    }
    hosts.insert(hosts.end(), std::make_move_iterator(names->begin()), std::make_move_iterator(names->end()));
    text.remove_prefix(std::min(text.size(), *end + 1));
  }
  return hosts;
}

absl::StatusOr<std::vector<uint8_t>> ExpandPlaces(std::string_view text) {
  const std::string_view whole = text;
  std::vector<uint8_t> places;
  while (!text.empty()) {
    const std::optional<Range> range = RangeOf(TakeUntil(text, ','));
    if (!range || range->last > UINT8_MAX) {
      return absl::InvalidArgumentError(fmt::format("\"{}\" is not a list of places such as 0-2,5", whole));
    }
    for (uint32_t i = range->first; i <= range->last && places.size() <= UINT8_MAX; ++i)
      places.push_back(static_cast<uint8_t>(i));
  }
  return places;
}

}  // namespace plugins::launchers::slurm
