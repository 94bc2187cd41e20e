#include "plugins/engines/start_times.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

namespace plugins::engines {
namespace {

enum class StartPart : uint8_t { kLoading, kReading, kKernels, kGraphs };
constexpr size_t kParts = 4;

// The number follows `before` and, on the same line, `then`.
struct StartPhrase {
  std::string_view before;
  std::string_view then;
  StartPart part;
};
constexpr std::array<StartPhrase, 8> kPhrases = {
    {{"Model loading took ", " and ", StartPart::kLoading},
     {"Loading weights took ", "", StartPart::kReading},
     {"Load weight end. ", "elapsed=", StartPart::kReading},
     {"torch.compile takes ", "", StartPart::kKernels},
     {"torch.compile took ", "", StartPart::kKernels},
     {"Graph capturing finished in ", "", StartPart::kGraphs},
     {"Capture cuda graph end. ", "elapsed: ", StartPart::kGraphs},
     {"Capture CUDA graph end. ", "elapsed: ", StartPart::kGraphs}}};

std::optional<conf::Duration> ReadSeconds(std::string_view text) {
  double seconds = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seconds);
  constexpr double kLongest = 86'400;
  if (error != std::errc() || !std::isfinite(seconds) || seconds < 0 || seconds > kLongest)
    return std::nullopt;
  return std::chrono::duration_cast<conf::Duration>(std::chrono::duration<double>(seconds));
}

}  // namespace

StartTimes ReadStartTimes(std::string_view log) {
  std::array<std::optional<conf::Duration>, kParts> longest{};
  while (!log.empty()) {
    const size_t end = std::min(log.find('\n'), log.size());
    const std::string_view line = log.substr(0, end);
    log.remove_prefix(std::min(end + 1, log.size()));
    for (const StartPhrase& phrase : kPhrases) {
      size_t at = line.find(phrase.before);
      if (at == std::string_view::npos) continue;
      at = line.find(phrase.then, at + phrase.before.size());
      if (at == std::string_view::npos) continue;
      const std::optional<conf::Duration> took = ReadSeconds(line.substr(at + phrase.then.size()));
      std::optional<conf::Duration>& of = longest[static_cast<size_t>(phrase.part)];
      if (took) of = std::max(of.value_or(conf::Duration::zero()), *took);
    }
  }
  const auto of = [&](StartPart part) { return longest[static_cast<size_t>(part)]; };
  StartTimes out;
  out.loaded = of(StartPart::kLoading) ? of(StartPart::kLoading) : of(StartPart::kReading);
  if (of(StartPart::kKernels) || of(StartPart::kGraphs)) {
    out.compiled = of(StartPart::kKernels).value_or(conf::Duration::zero()) +
                   of(StartPart::kGraphs).value_or(conf::Duration::zero());
  }
  return out;
}

}  // namespace plugins::engines
