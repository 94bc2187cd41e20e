// Reserve and settle over a key, a team and an organisation. Arg: how many limits are on the path.
// `shared`: all threads charge one organisation, the worst case; `apart`: each thread its own.
#include <benchmark/benchmark.h>

#include <cstddef>
#include <string>
#include <variant>
#include <vector>

#include "router/limits/rate_status.h"
#include "router/limits/reservation.h"
#include "router/limits/tree.h"

namespace {

using namespace router::limits;

const conf::TimePoint kStart = *conf::ParseTime("2026-11-20T08:30:00Z");

LimitTree& Tree(int64_t limits) {
  static LimitTree trees[13];
  static const bool built = [] {
    for (size_t n = 1; n < std::size(trees); ++n) {
      std::vector<NodeSpec> nodes;
      for (const char* root : {"org0", "org1", "org2", "org3"}) {
        const std::string paths[] = {std::string(root) + "/team/key", std::string(root) + "/team", root};
        for (const std::string& path : paths) nodes.push_back({path, {}});
        constexpr Dimension kOrder[] = {Dimension::kRequests, Dimension::kTokens, Dimension::kConcurrency,
                                        Dimension::kBudget};
        for (size_t i = 0; i < n; ++i) {
          nodes[nodes.size() - 3 + i % 3].limits.push_back({kOrder[i / 3], kMaxCapacity, Period::kMonth});
        }
      }
      if (!trees[n].Update(nodes).ok()) std::abort();
    }
    return true;
  }();
  benchmark::DoNotOptimize(built);
  return trees[limits];
}

ReserveRequest ChatAsk() {
  ReserveRequest ask;
  ask.input_tokens_est = 900;
  ask.output_tokens_bound = 300;
  ask.model_max_output = 4096;
  ask.price = {.input = 150'000, .cached_input = 75'000, .output = 600'000};
  return ask;
}

void ReserveAndSettle(benchmark::State& state, bool shared, bool bounded) {
  const int org = shared ? 0 : state.thread_index();
  const NodeRef key = Tree(state.range(0)).Resolve("org" + std::to_string(org) + "/team/key");
  ReserveRequest ask = ChatAsk();
  if (!bounded) ask.output_tokens_bound.reset();
  conf::TimePoint now = kStart;
  for (auto _ : state) {
    now += std::chrono::microseconds(10);
    ReserveResult outcome = Reserve(key, ModelRef::kUnnamed, ask, now);
    benchmark::DoNotOptimize(
        std::get<Grant>(outcome).reservation.Settle({.input = 880, .cached_input = 0, .output = 200}));
  }
  state.SetItemsProcessed(state.iterations());
}

void Refuse(benchmark::State& state) {
  LimitTree tree;
  if (!tree.Update(std::vector<NodeSpec>{{"org", {{Dimension::kRequests, 0}}}}).ok()) std::abort();
  const NodeRef node = tree.Resolve("org");
  const ReserveRequest ask = ChatAsk();
  for (auto _ : state) benchmark::DoNotOptimize(Reserve(node, ModelRef::kUnnamed, ask, kStart));
}

void RateHeaders(benchmark::State& state) {
  const NodeRef key = Tree(6).Resolve("org0/team/key");
  for (auto _ : state) benchmark::DoNotOptimize(Rates(key, ModelRef::kUnnamed, kStart));
}

BENCHMARK_CAPTURE(ReserveAndSettle, shared, true, true)
    ->Arg(1)
    ->Arg(6)
    ->Arg(12)
    ->Threads(1)
    ->Threads(2)
    ->UseRealTime();
BENCHMARK_CAPTURE(ReserveAndSettle, apart, false, true)->Arg(6)->Threads(2)->UseRealTime();
BENCHMARK_CAPTURE(ReserveAndSettle, unbounded, true, false)->Arg(6);
BENCHMARK(Refuse);
BENCHMARK(RateHeaders);

}  // namespace
