// Streams: finding where events end, and the tally that reads what passes.
#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <cstring>
#include <string>

#include "bench/micro/allocations.h"
#include "gateway/net/sse.h"
#include "gateway/request/stream_tally.h"

namespace {

namespace net = gateway::net;

// An event as vLLM sends it; with the usage that was asked for, null until the last.
std::string Chunk(bool usage) {
  return fmt::format(
             R"(data: {{"id":"chatcmpl-0750e8d2f62037a985fa850604edc175","object":"chat.completion.chunk",)"
             R"("created":1767225600,"model":"chat-small","choices":[{{"index":0,"delta":{{"content":" lock"}},)"
             R"("logprobs":null,"finish_reason":null}}]{}}})",
             usage ? R"(,"usage":null)" : "") +
         "\n\n";
}

std::string Events(int64_t count, bool usage) {
  std::string events;
  for (int64_t i = 0; i < count; ++i) events += Chunk(usage);
  return events;
}

void BM_SseWhole(benchmark::State& state) {
  const std::string events = Events(state.range(0), true);
  const bench::AllocationCounter allocations(state);
  for (auto _ : state) {
    net::SseFramer framer;
    benchmark::DoNotOptimize(framer.Whole(events));
  }
  state.SetItemsProcessed(state.range(0) * static_cast<int64_t>(state.iterations()));
}
BENCHMARK(BM_SseWhole)->Arg(1)->Arg(16);

// An event that arrives in pieces of 16 bytes.
void BM_SseWholeInPieces(benchmark::State& state) {
  const std::string event = Chunk(true);
  const bench::AllocationCounter allocations(state);
  for (auto _ : state) {
    net::SseFramer framer;
    size_t whole = 0;
    for (size_t n = 16; whole == 0; n += 16) whole = framer.Whole(std::string_view(event).substr(0, n));
    benchmark::DoNotOptimize(whole);
  }
}
BENCHMARK(BM_SseWholeInPieces);

// range 0: events at a time; range 1: whether usage is hidden from the client, cut out of every event.
void BM_StreamTally(benchmark::State& state) {
  const bool hide = state.range(1) == 1;
  const std::string events = Events(state.range(0), hide);
  std::string data = events;
  gateway::StreamTally tally(router::Api::kChatCompletions, hide);
  const bench::AllocationCounter allocations(state);
  for (auto _ : state) {
    std::memcpy(data.data(), events.data(), events.size());  // it works in place
    benchmark::DoNotOptimize(tally.Pass(data.data(), data.size()));
  }
  state.SetItemsProcessed(state.range(0) * static_cast<int64_t>(state.iterations()));
  state.SetLabel(hide ? "hides usage" : "passes all");
}
BENCHMARK(BM_StreamTally)->ArgsProduct({{1, 16}, {0, 1}});

}  // namespace
