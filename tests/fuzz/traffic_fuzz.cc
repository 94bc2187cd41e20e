// Any text at all must be read as recorded traffic of each format, or its rows be left out, without a crash;
// what is accepted comes in order of time, within bounds, and is requests that a simulation can be asked for.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "router/sim/offered_load.h"
#include "router/sim/traffic.h"

namespace {

namespace sim = router::sim;

void Check(const sim::Traffic& traffic) {
  if (traffic.calls.size() + traffic.report.left_out != traffic.report.lines) std::abort();
  if (!std::ranges::is_sorted(traffic.calls, {}, &sim::Call::at)) std::abort();
  for (const sim::Call& call : traffic.calls) {
    if (call.at < conf::Duration::zero() || std::max(call.input, call.output) > sim::kMaxCallTokens) {
      std::abort();
    }
  }
  for (const sim::Request& request : sim::RequestsOf(traffic.calls)) {
    if (request.blocks.size() * sim::kBlockTokens > request.prompt_tokens) std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  Check(sim::ReadTraffic(text, "fuzz.csv", sim::TrafficFormat::kAzure));
  Check(sim::ReadTraffic(text, "fuzz.jsonl", sim::TrafficFormat::kMooncake));
  return 0;
}
