// The cost of one request for the signals of its model and class: its cells, from its beginning to
// its end, when it goes at once and when it waits before.
#include <benchmark/benchmark.h>

#include <chrono>

#include "gateway/shard/demand.h"

namespace {

using std::chrono::milliseconds;

void DemandCells(benchmark::State& state) {
  gateway::DemandCells model;
  gateway::ClassCells of_class;
  const bool waits = state.range(0) != 0;
  for (auto _ : state) {
    gateway::Demand demand;
    demand.Begin({.model = &model,
                  .of_class = &of_class,
                  .work_ns = 400'000'000,
                  .prompt_tokens = 1000,
                  .ttft = milliseconds(2000)});
    if (waits) demand.Hold();
    demand.LetGo();
    demand.FirstToken(milliseconds(180));
    demand.Answered(milliseconds(180), milliseconds(30));
  }
  benchmark::DoNotOptimize(of_class.came.value());
}
BENCHMARK(DemandCells)->ArgName("waits")->Arg(0)->Arg(1);

}  // namespace
