#include "router/sim/servegen.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>
#include <tuple>
#include <utility>

#include "conf/json_parse.h"
#include "conf/text.h"
#include "scheduler/io/lines.h"
#include "scheduler/sim/draws.h"

namespace router::sim {
namespace {

using Gaps = ServegenClient::Gaps;
using Window = ServegenClient::Window;

constexpr conf::Duration kWindow = std::chrono::minutes(10);  // of a trace with one
constexpr double kMostRate = 1e5;                             // requests a second, of one client
constexpr double kLeastShape = 1e-3;
constexpr double kMostShape = 1e6;
constexpr double kLongestDay = 366 * 24 * 3600.0;  // seconds
constexpr double kMostTimes = 1e6;
constexpr size_t kFields = 6;

std::optional<double> Number(std::string_view text, double least, double most) {
  const std::optional<double> value = conf::ReadNumber<double>(text);
  return value >= least && value <= most ? value : std::nullopt;
}

conf::Duration Instant(double seconds) {
  return conf::Duration(static_cast<int64_t>(seconds * 1e9));
}

// Reads a row into `window`. Returns what is wrong, or an empty string.
std::string ReadWindow(std::string_view line, Window& window) {
  std::array<std::string_view, kFields> fields;
  for (size_t i = 0; i < kFields; ++i) {
    const size_t comma = line.find(',');
    if ((comma == std::string_view::npos) != (i + 1 == kFields)) {
      return "expected begin,rate,cv,distribution,shape,scale";
    }
    fields[i] = line.substr(0, comma);
    line.remove_prefix(comma == std::string_view::npos ? line.size() : comma + 1);
  }
  const auto from = Number(fields[0], 0, kLongestDay);
  if (!from) return "begin: expected seconds since the start of the trace, within a year";
  const auto rate = Number(fields[1], 0, kMostRate);
  if (!rate) return fmt::format("rate: expected requests a second, from 0 to {:g}", kMostRate);
  window = {.from = Instant(*from), .rate = *rate};
  if (*rate == 0) return {};
  if (fields[3] != "Gamma" && fields[3] != "Weibull") return "distribution: expected Gamma or Weibull";
  const auto shape = Number(fields[4], kLeastShape, kMostShape);
  if (!shape) return fmt::format("shape: expected a number from {:g} to {:g}", kLeastShape, kMostShape);
  window.gaps = fields[3] == "Gamma" ? Gaps::kGamma : Gaps::kWeibull;
  window.shape = *shape;
  return {};
}

// "{45: 0.0097, 46: 0.0117}"
std::optional<TokenHistogram> ReadHistogram(std::string_view text) {
  TokenHistogram histogram;
  const auto skip = [&](char wanted) {
    const size_t at = text.find_first_not_of(' ');
    if (at == std::string_view::npos || text[at] != wanted) return false;
    text.remove_prefix(at + 1);
    return true;
  };
  const auto number = [&](auto& value) {
    const size_t at = text.find_first_not_of(' ');
    if (at == std::string_view::npos) return false;
    text.remove_prefix(at);
    const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc{}) return false;
    text.remove_prefix(static_cast<size_t>(rest - text.data()));
    return true;
  };
  if (!skip('{')) return std::nullopt;
  while (!skip('}')) {
    if (!histogram.empty() && !skip(',')) return std::nullopt;
    uint32_t tokens = 0;
    double share = 0;
    if (!number(tokens) || !skip(':') || !number(share)) return std::nullopt;
    if (tokens > kMaxCallTokens || !(share > 0 && share <= 1)) return std::nullopt;
    histogram.Add(tokens, share);
  }
  return text.find_first_not_of(' ') == std::string_view::npos ? std::optional(std::move(histogram))
                                                               : std::nullopt;
}

void ReadSpans(const ServegenFile& file, ServegenClient& client, scheduler::io::LineReport& report) {
  const auto wrong = [&](std::string pointer, std::string message) {
    report.Add({.file = file.name,
                .pointer = std::move(pointer),
                .line = 0,
                .value = {},
                .message = std::move(message)});
  };
  const nlohmann::json object = conf::ParseJson(file.text);
  if (!object.is_object()) return wrong("", "expected a JSON object of spans by their begin in seconds");
  for (const auto& [key, value] : object.items()) {
    const std::string pointer = "/" + scheduler::io::Visible(key);
    const auto from = Number(key, 0, kLongestDay);
    if (!from) {
      wrong(pointer, "expected the start of a span, in seconds within a year");
      continue;
    }
    ServegenClient::Span span{.from = Instant(*from), .input = {}, .output = {}};
    bool read = true;
    for (const auto& [name, histogram] :
         {std::pair("input_tokens", &span.input), std::pair("output_tokens", &span.output)}) {
      const auto text = value.is_object() ? value.find(name) : value.end();
      auto found = text != value.end() && text->is_string()
                       ? ReadHistogram(text->get_ref<const std::string&>())
                       : std::nullopt;
      if (!found) {
        wrong(pointer + "/" + name,
              fmt::format("expected \"{{tokens: share, ...}}\", tokens up to {}, shares above 0 up to 1",
                          kMaxCallTokens));
        read = false;
        continue;
      }
      *histogram = *std::move(found);
    }
    // A span without requests has empty histograms.
    if (read && !span.input.empty() && !span.output.empty()) client.spans.push_back(std::move(span));
  }
  std::ranges::sort(client.spans, {}, &ServegenClient::Span::from);
  if (client.spans.empty() && report.problems.empty()) wrong("", "has no span with tokens of both");
}

// A Gamma variate with mean `shape` (Marsaglia and Tsang).
double Gamma(scheduler::Rng& rng, double shape) {
  if (shape < 1) {
    const double whole = Gamma(rng, shape + 1);
    return whole * std::pow(1 - rng.Double(), 1 / shape);
  }
  const double d = shape - 1.0 / 3;
  const double c = 1 / std::sqrt(9 * d);
  while (true) {
    const double x = scheduler::sim::Normal(rng);
    const double v = std::pow(1 + c * x, 3);
    if (v <= 0) continue;
    if (std::log1p(-rng.Double()) < x * x / 2 + d - d * v + d * std::log(v)) return d * v;
  }
}

// Seconds to the next request, with mean 1.
double Gap(scheduler::Rng& rng, const Window& window) {
  if (window.gaps == Gaps::kGamma) return Gamma(rng, window.shape) / window.shape;
  const double power = 1 / window.shape;
  return std::exp(power * std::log(-std::log1p(-rng.Double())) - std::lgamma(1 + power));
}

const ServegenClient::Span& SpanAt(const ServegenClient& client, conf::Duration at) {
  const auto after = std::ranges::upper_bound(client.spans, at, {}, &ServegenClient::Span::from);
  return after == client.spans.begin() ? *after : *std::prev(after);
}

}  // namespace

void TokenHistogram::Add(uint32_t tokens, double share) {
  bins_.push_back({(bins_.empty() ? 0 : bins_.back().up_to) + share, tokens});
}

uint32_t TokenHistogram::Draw(scheduler::Rng& rng) const {
  const double at = rng.Double() * bins_.back().up_to;
  const auto bin = std::ranges::upper_bound(bins_, at, {}, &Bin::up_to);
  return bin == bins_.end() ? bins_.back().tokens : bin->tokens;
}

double TokenHistogram::Mean() const {
  double sum = 0;
  double before = 0;
  for (const Bin& bin : bins_) {
    sum += (bin.up_to - before) * bin.tokens;
    before = bin.up_to;
  }
  return before > 0 ? sum / before : 0;
}

conf::Duration ServegenClient::End(size_t window) const {
  if (window + 1 < windows.size()) return windows[window + 1].from;
  return windows[window].from + (window > 0 ? windows[window].from - windows[window - 1].from : kWindow);
}

LoadedClient ReadServegenClient(const ServegenFile& trace, const ServegenFile& dataset) {
  LoadedClient loaded;
  ServegenClient client;
  scheduler::io::ForEachLine(trace.text, [&](std::string_view line, int number) {
    if (line.empty()) return;
    ++loaded.report.lines;
    Window window;
    std::string defect = ReadWindow(line, window);
    if (defect.empty() && !client.windows.empty() && window.from <= client.windows.back().from) {
      defect = "begins no later than the row before it";
    }
    if (defect.empty()) {
      client.windows.push_back(window);
      return;
    }
    ++loaded.report.left_out;
    loaded.report.Add(
        {.file = trace.name, .pointer = {}, .line = number, .value = {}, .message = std::move(defect)});
  });
  if (client.windows.empty()) {
    loaded.report.Add(
        {.file = trace.name, .pointer = {}, .line = 0, .value = {}, .message = "has no window"});
  }
  const size_t before = loaded.report.problems.size();
  ReadSpans(dataset, client, loaded.report);
  if (loaded.report.problems.size() == before && !client.windows.empty() && !client.spans.empty()) {
    loaded.client = std::move(client);
  }
  return loaded;
}

std::optional<MixPart> ParseMixPart(std::string_view text) {
  MixPart part;
  if (const size_t sign = text.find('@'); sign != std::string_view::npos) {
    const auto shift = conf::ParseDuration(text.substr(sign + 1));
    if (!shift || *shift < conf::Duration::zero()) return std::nullopt;
    part.shift = *shift;
    text = text.substr(0, sign);
  }
  if (const size_t colon = text.find(':'); colon != std::string_view::npos) {
    const auto times = Number(text.substr(colon + 1), 0, kMostTimes);
    if (!times || *times == 0) return std::nullopt;
    part.times = *times;
    text = text.substr(0, colon);
  }
  const auto client = conf::ReadNumber<decltype(part.client)>(text);
  if (!client) return std::nullopt;
  part.client = *client;
  return part;
}

std::optional<std::vector<Call>> Mixed(std::span<const ServegenClient> clients,
                                       std::span<const MixPart> parts, const TrafficWindow& window,
                                       uint64_t seed) {
  conf::Duration end{};
  for (const MixPart& part : parts) end = std::max(end, clients[part.client].length());
  if (window.length) end = window.from + *window.length;
  std::vector<Call> calls;
  for (size_t p = 0; p < parts.size(); ++p) {
    const ServegenClient& client = clients[parts[p].client];
    const conf::Duration day = client.length();
    // The time of the client's day at which the window begins.
    const conf::Duration into = (window.from + day - parts[p].shift % day) % day;
    for (conf::Duration begin = window.from - into; begin < end; begin += day) {
      for (size_t w = 0; w < client.windows.size(); ++w) {
        const Window& own = client.windows[w];
        const conf::Duration opens = begin + own.from;
        const conf::Duration closes = begin + client.End(w);
        if (own.rate <= 0 || closes <= window.from || opens >= end) continue;
        const auto turn = static_cast<uint64_t>((opens + day) / day);
        scheduler::Rng rng(seed ^ (0x9e3779b97f4a7c15u * (p + 1)) ^ (w << 32) ^ turn);
        const ServegenClient::Span& span = SpanAt(client, own.from);
        const double rate = own.rate * parts[p].times;
        double at = rng.Double() * Gap(rng, own) / rate;
        const double length = conf::ToSeconds(closes - opens);
        if (window.max_calls > 0 && rate * length > 2 * static_cast<double>(window.max_calls))
          return std::nullopt;
        for (; at < length; at += Gap(rng, own) / rate) {
          const uint32_t input = span.input.Draw(rng);
          const uint32_t output = span.output.Draw(rng);
          const conf::Duration when = opens + Instant(at);
          if (when < window.from || when >= end) continue;
          if (window.max_calls > 0 && calls.size() == window.max_calls) return std::nullopt;
          calls.push_back({.at = when, .input = input, .output = output, .blocks = {}});
        }
      }
    }
  }
  std::ranges::sort(calls, {}, [](const Call& call) { return std::tuple(call.at, call.input, call.output); });
  return calls;
}

}  // namespace router::sim
