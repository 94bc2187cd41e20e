// Any text at all must be read as recorded traffic of each format, or its rows be left out, without a crash;
// what is accepted comes in order of time, within bounds, and is requests that a simulation can be asked for.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "router/sim/offered_load.h"
#include "router/sim/servegen.h"
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

void CheckClient(const sim::LoadedClient& loaded) {
  if (!loaded.client) {
    if (loaded.report.problems.empty()) std::abort();
    return;
  }
  const std::array clients = {*loaded.client};
  const auto calls =
      sim::Mixed(clients, std::array{sim::MixPart{}}, {.from = {}, .length = {}, .max_calls = 1000}, 1);
  if (calls && calls->size() > 1000) std::abort();
  if (calls && !std::ranges::is_sorted(*calls, {}, &sim::Call::at)) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  Check(sim::ReadTraffic(text, "fuzz.csv", sim::TrafficFormat::kAzure));
  Check(sim::ReadTraffic(text, "fuzz.jsonl", sim::TrafficFormat::kMooncake));
  const std::string_view dataset = R"({"0": {"input_tokens": "{9: 1}", "output_tokens": "{9: 1}"}})";
  CheckClient(sim::ReadServegenClient({"trace.csv", text}, {"dataset.json", dataset}));
  CheckClient(sim::ReadServegenClient({"trace.csv", "0,1,1,Gamma,1,1"}, {"dataset.json", text}));
  return 0;
}
