// The facts scan and the splices of a chat request: time and allocations an operation.
#include <benchmark/benchmark.h>

#include <array>
#include <string>

#include "bench/micro/allocations.h"
#include "router/facts/body_facts.h"
#include "router/facts/splice.h"

namespace {

// A chat request of about `size` bytes: a system prompt and turns of 200 bytes.
std::string ChatBody(size_t size) {
  std::string body =
      R"({"model":"chat-small","stream":true,"temperature":0.7,"max_tokens":256,"user":"u-1234","messages":[)";
  body += R"({"role":"system","content":"You are a helpful assistant."})";
  const std::string turn = std::string(180, 'x') + "\\n";
  for (int i = 0; body.size() < size; ++i) {
    body +=
        R"(,{"role":")" + std::string(i % 2 == 0 ? "user" : "assistant") + R"(","content":")" + turn + "\"}";
  }
  return body + "]}";
}

void BM_FactsScan(benchmark::State& state) {
  const std::string body = ChatBody(static_cast<size_t>(state.range(0)));
  router::FactsScanner scanner;
  router::BodyFacts facts;
  scanner.Scan(body, router::Api::kChatCompletions, facts);
  const bench::AllocationCounter allocations(state);
  for (auto _ : state) {
    benchmark::DoNotOptimize(scanner.Scan(body, router::Api::kChatCompletions, facts));
  }
  state.SetBytesProcessed(static_cast<int64_t>(body.size()) * static_cast<int64_t>(state.iterations()));
}
BENCHMARK(BM_FactsScan)->Arg(512)->Arg(4096)->Arg(65536)->Arg(1 << 20);

void BM_FactsScanTokenIds(benchmark::State& state) {
  std::string body = R"({"model":"embed","input":[)";
  for (int i = 0; i < 8192; ++i) body += std::to_string(i * 7 % 128'000) + ",";
  body.back() = ']';
  body += "}";
  router::FactsScanner scanner;
  router::BodyFacts facts;
  scanner.Scan(body, router::Api::kEmbeddings, facts);
  const bench::AllocationCounter allocations(state);
  for (auto _ : state) benchmark::DoNotOptimize(scanner.Scan(body, router::Api::kEmbeddings, facts));
  state.SetBytesProcessed(static_cast<int64_t>(body.size()) * static_cast<int64_t>(state.iterations()));
}
BENCHMARK(BM_FactsScanTokenIds);

void BM_Splice(benchmark::State& state) {
  const std::string body = ChatBody(4096);
  router::FactsScanner scanner;
  router::BodyFacts facts;
  scanner.Scan(body, router::Api::kChatCompletions, facts);
  const router::SpliceRequest request{.upstream_model_json = "\"org/model\"", .output_cap = 128};
  std::array<std::string_view, router::kMaxPieces> pieces;
  const bench::AllocationCounter allocations(state);
  for (auto _ : state) {
    const router::SplicePlan plan = router::PlanSplices(router::Api::kChatCompletions, facts, request);
    benchmark::DoNotOptimize(plan.Gather(body, pieces));
  }
}
BENCHMARK(BM_Splice);

}  // namespace
