// ServeGen's clients (Xiang et al., "ServeGen: Workload Characterization and Generation of LLM Serving"):
// what each of them sends, as rates and burstiness in windows of a day and as histograms of prompts and
// answers, and mixes of them as calls.
//
// A client is two files. `chunk-N-trace.csv`, without a header: begin of the window (s), requests a second,
// their coefficient of variation, Gamma or Weibull, its shape, its scale (which follows from the rate). And
// `chunk-N-dataset.json`: by the begin of a span (s), "input_tokens" and "output_tokens", each a text
// "{tokens: share, ...}". Prompts share nothing.
//
// Pure: texts in, calls out; the same seed gives the same calls. A row of a trace that cannot be read is left
// out, counted and named; a data set is taken as a whole or not at all.
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

// Tokens by their shares.
class TokenHistogram {
 public:
  void Add(uint32_t tokens, double share);
  bool empty() const { return bins_.empty(); }
  uint32_t Draw(scheduler::Rng& rng) const;  // of one that is not empty
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
    double rate = 0;  // requests a second; 0: nobody sends
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
  conf::Duration length() const { return End(windows.size() - 1); }  // after which it begins again
};

struct ServegenFile {
  std::string name;
  std::string_view text;
};

struct LoadedClient {
  std::optional<ServegenClient> client;  // none: the problems say why
  scheduler::io::LineReport report;      // of the trace's rows; problems of the data set too
};

LoadedClient ReadServegenClient(const ServegenFile& trace, const ServegenFile& dataset);

// A client in a mix: `times` its rate, and as it is `shift` later in its day.
struct MixPart {
  uint32_t client = 0;
  double times = 1;
  conf::Duration shift{};
};

// "3", "3:40" or "3:40@6h": which client, how many times its rate, how much later.
std::optional<MixPart> ParseMixPart(std::string_view text);

// The calls of the mix in the window (to the end of the longest client's day when it has no length), by
// time; MixPart::client is an index into `clients`. Nothing when there are more than window.max_calls (0: no
// bound). What a client sends in a window does not depend on the others nor on where the mix is cut.
std::optional<std::vector<Call>> Mixed(std::span<const ServegenClient> clients,
                                       std::span<const MixPart> parts, const TrafficWindow& window,
                                       uint64_t seed);

}  // namespace router::sim
