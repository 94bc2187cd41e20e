// ServeGen's clients (Xiang et al., "ServeGen: Workload Characterization and Generation of LLM Serving"):
// rates and burstiness in windows of a day, histograms of prompt and answer lengths, and mixes of clients as
// calls.
//
// A client is two files. `chunk-N-trace.csv`, without a header: start of the window (s), requests per second,
// their coefficient of variation, Gamma or Weibull, its shape, its scale (which follows from the rate). And
// `chunk-N-dataset.json`: by the start of a span (s), "input_tokens" and "output_tokens", each a text
// "{tokens: share, ...}". Prompts share nothing.
//
// Pure: texts in, calls out; the same seed gives the same calls. An unreadable row of a trace is left out,
// counted and named; a data set is taken as a whole or not at all.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "router/sim/traffic.h"
#include "scheduler/io/loaded.h"
#include "scheduler/rng.h"

namespace router::sim {

// A distribution of token counts.
class TokenHistogram {
 public:
  void Add(uint32_t tokens, double share);
  bool empty() const { return bins_.empty(); }
  uint32_t Draw(scheduler::Rng& rng) const;  // must not be empty
  double Mean() const;

 private:
  struct Bin {
    double up_to;  // sum of the shares so far
    uint32_t tokens;
  };
  std::vector<Bin> bins_;
};

struct ServegenClient {
  enum class Gaps : uint8_t { kGamma, kWeibull };
  struct Window {
    conf::Duration from{};
    double rate = 0;  // requests per second
    Gaps gaps = Gaps::kGamma;
    double shape = 1;
  };
  struct Span {
    conf::Duration from{};
    TokenHistogram input;
    TokenHistogram output;
  };

  std::vector<Window> windows;  // at least one, by time; the last is as long as the one before it
  std::vector<Span> spans;      // at least one, by time, none with an empty histogram

  conf::Duration End(size_t window) const;
  conf::Duration length() const { return End(windows.size() - 1); }  // its day, which repeats
};

struct ServegenFile {
  std::string name;
  std::string_view text;
};

struct LoadedClient {
  std::optional<ServegenClient> client;  // none: report.problems says why
  scheduler::io::LineReport report;      // rows of the trace, and problems of the data set
};

LoadedClient ReadServegenClient(const ServegenFile& trace, const ServegenFile& dataset);

// A client in a mix: at `times` its rate, its day moved by `shift`.
struct MixPart {
  uint32_t client = 0;
  double times = 1;
  conf::Duration shift{};
};

// "3", "3:40" or "3:40@6h": which client, how many times its rate, how much later.
std::optional<MixPart> ParseMixPart(std::string_view text);

// The calls of the mix in the window, by time; a window without length ends with the longest client's day.
// MixPart::client is an index into `clients`. Nothing when there are more than window.max_calls calls (0: no
// bound). The calls of one client depend neither on the other clients nor on where the mix is cut.
std::optional<std::vector<Call>> Mixed(std::span<const ServegenClient> clients,
                                       std::span<const MixPart> parts, const TrafficWindow& window,
                                       uint64_t seed);

}  // namespace router::sim
