#include "plugins/engines/prometheus_text.h"

#include <limits>

#include "conf/text.h"

namespace plugins::engines {
namespace {

constexpr std::string_view kSpace = " \t";

std::string_view Trimmed(std::string_view text) {
  const size_t from = text.find_first_not_of(kSpace);
  return from == std::string_view::npos ? std::string_view() : text.substr(from);
}

std::optional<double> NumberOf(std::string_view text) {
  if (text == "NaN") return std::numeric_limits<double>::quiet_NaN();
  if (text == "+Inf" || text == "Inf") return std::numeric_limits<double>::infinity();
  if (text == "-Inf") return -std::numeric_limits<double>::infinity();
  if (text.starts_with('+')) text.remove_prefix(1);
  return conf::ReadNumber<double>(text);
}

// Where a quoted text that begins after `from` ends: at its closing quote.
size_t QuoteEnd(std::string_view text, size_t from) {
  for (size_t i = from; i < text.size(); ++i) {
    if (text[i] == '\\') {
      ++i;
    } else if (text[i] == '"') {
      return i;
    }
  }
  return std::string_view::npos;
}

// The place of the closing brace in `labels} value`.
size_t BraceEnd(std::string_view text) {
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '}') return i;
    if (text[i] != '"') continue;
    i = QuoteEnd(text, i + 1);
    if (i == std::string_view::npos) break;
  }
  return std::string_view::npos;
}

std::optional<Sample> SampleOf(std::string_view line) {
  if (line.ends_with('\r')) line.remove_suffix(1);
  line = Trimmed(line);
  if (line.empty() || line.front() == '#') return std::nullopt;
  Sample sample;
  const size_t name_end = line.find_first_of("{ \t");
  if (name_end == 0 || name_end == std::string_view::npos) return std::nullopt;
  sample.name = line.substr(0, name_end);
  std::string_view rest = Trimmed(line.substr(name_end));
  if (rest.starts_with('{')) {
    rest.remove_prefix(1);
    const size_t end = BraceEnd(rest);
    if (end == std::string_view::npos) return std::nullopt;
    sample.labels = rest.substr(0, end);
    rest = Trimmed(rest.substr(end + 1));
  }
  const std::optional<double> value = NumberOf(rest.substr(0, rest.find_first_of(kSpace)));
  if (!value) return std::nullopt;
  sample.value = *value;
  return sample;
}

}  // namespace

std::optional<std::string_view> Sample::Label(std::string_view label) const {
  std::string_view rest = labels;
  while (true) {
    rest = Trimmed(rest);
    const size_t equals = rest.find('=');
    const size_t open = rest.find('"', equals);
    if (equals == std::string_view::npos || open == std::string_view::npos) return std::nullopt;
    const size_t close = QuoteEnd(rest, open + 1);
    if (close == std::string_view::npos) return std::nullopt;
    std::string_view name = rest.substr(0, equals);
    while (!name.empty() && kSpace.find(name.back()) != std::string_view::npos) name.remove_suffix(1);
    if (name == label) return rest.substr(open + 1, close - open - 1);
    const size_t comma = rest.find(',', close);
    if (comma == std::string_view::npos) return std::nullopt;
    rest = rest.substr(comma + 1);
  }
}

void ForEachSample(std::string_view text, absl::FunctionRef<void(const Sample&)> use) {
  while (!text.empty()) {
    const size_t end = text.find('\n');
    if (const std::optional<Sample> sample = SampleOf(text.substr(0, end))) use(*sample);
    if (end == std::string_view::npos) return;
    text.remove_prefix(end + 1);
  }
}

}  // namespace plugins::engines
