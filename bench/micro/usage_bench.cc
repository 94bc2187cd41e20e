// The cost of metering for an event or a body: the scans that every relayed byte range goes through.
#include <benchmark/benchmark.h>

#include <string>

#include "gateway/api/anthropic.h"
#include "gateway/api/usage.h"
#include "gateway/api/usage_scan.h"

namespace gateway::api {
namespace {

const std::string kChunk =
    R"(data: {"id":"chatcmpl-9f1c2d3e4f5a6b7c8d9e","object":"chat.completion.chunk","created":1764892800,)"
    R"("model":"chat-small","choices":[{"index":0,"delta":{"content":" token"},"logprobs":null,"finish_reason":null,)"
    R"("token_ids":null}]})"
    "\n\n";
const std::string kNullChunk = std::string(kChunk).replace(kChunk.size() - 3, 1, R"(,"usage":null})");
const std::string kUsageChunk =
    R"(data: {"id":"chatcmpl-9f1c2d3e4f5a6b7c8d9e","object":"chat.completion.chunk","created":1764892800,)"
    R"("model":"chat-small","choices":[],"usage":{"prompt_tokens":1219,"total_tokens":1419,"completion_tokens":200,)"
    R"("prompt_tokens_details":{"cached_tokens":1024}}})"
    "\n\n";

std::string Embeddings() {
  std::string body = R"({"object":"list","data":[{"object":"embedding","index":0,"embedding":[)";
  for (int i = 0; i < 50'000; ++i) body += "-0.012345678,";
  return body + R"(0.1]}],"model":"e","usage":{"prompt_tokens":812,"total_tokens":812}})";
}

void WholeScan(benchmark::State& state, const std::string& text) {
  for (auto _ : state) benchmark::DoNotOptimize(UsageFromJson(text));
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(text.size()));
}
BENCHMARK_CAPTURE(WholeScan, chunk_without, kChunk);
BENCHMARK_CAPTURE(WholeScan, chunk_with_null, kNullChunk);
BENCHMARK_CAPTURE(WholeScan, usage_chunk, kUsageChunk);
BENCHMARK_CAPTURE(WholeScan, embeddings_650kB, Embeddings());

std::string PromptLogprobs() {
  std::string body = R"({"choices":[{"index":0,"message":{"content":"hi"},"finish_reason":"stop"}],"usage":{)"
                     R"("prompt_tokens":9000,"completion_tokens":2},"prompt_logprobs":[null)";
  for (int i = 0; i < 9'000; ++i) body += R"(,{"3923":{"logprob":-0.0123,"rank":1,"decoded_token":" lock"}})";
  return body + "]}";
}

// An answer that passes in pieces of 16 KiB, read as it flows.
void PiecesScan(benchmark::State& state, const std::string& text) {
  constexpr size_t kPiece = 16 * 1024;
  for (auto _ : state) {
    UsageScan scan;
    for (size_t at = 0; at < text.size(); at += kPiece) scan.Feed(std::string_view(text).substr(at, kPiece));
    benchmark::DoNotOptimize(scan.usage());
  }
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(text.size()));
}
BENCHMARK_CAPTURE(PiecesScan, embeddings_650kB, Embeddings());
BENCHMARK_CAPTURE(PiecesScan, prompt_logprobs_600kB, PromptLogprobs());
BENCHMARK_CAPTURE(WholeScan, prompt_logprobs_600kB, PromptLogprobs());

void UsageStrip(benchmark::State& state, const std::string& text) {
  for (auto _ : state) benchmark::DoNotOptimize(StripUsage(text));
}
BENCHMARK_CAPTURE(UsageStrip, chunk_without, kChunk);
BENCHMARK_CAPTURE(UsageStrip, chunk_with_null, kNullChunk);
BENCHMARK_CAPTURE(UsageStrip, usage_chunk, kUsageChunk);

void FinishScan(benchmark::State& state, const std::string& text) {
  for (auto _ : state) benchmark::DoNotOptimize(FinishFromJson(text));
}
BENCHMARK_CAPTURE(FinishScan, chunk, kChunk);

void TranslateChunkToMessages(benchmark::State& state) {
  const std::string_view chunk = std::string_view(kChunk).substr(6, kChunk.size() - 8);
  MessagesStream stream({.id = "msg_1", .model = "m", .request_id = "r"});
  std::string out;
  for (auto _ : state) {
    out.clear();
    stream.OnData(chunk, out);
    benchmark::DoNotOptimize(out.data());
  }
}
BENCHMARK(TranslateChunkToMessages);

void TranslateRequestFromMessages(benchmark::State& state) {
  std::string body = R"({"model":"c","max_tokens":64,"messages":[{"role":"user","content":")";
  body += std::string(4096, 'x') + R"("}]})";
  for (auto _ : state) benchmark::DoNotOptimize(ChatFromMessages(body, {.model = "m"}));
}
BENCHMARK(TranslateRequestFromMessages);

}  // namespace
}  // namespace gateway::api
