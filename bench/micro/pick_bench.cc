// Pick with each policy over a model's replicas, charge and settlement included: time and allocations an
// operation.
#include <benchmark/benchmark.h>

#include <cstdlib>
#include <string>

#include "bench/micro/allocations.h"
#include "router/attempt.h"

namespace {

router::RouteTable MakeTable(int64_t replicas, router::PolicyKind policy) {
  router::ModelSpec model;
  model.name = "m";
  model.policy = policy;
  for (int64_t i = 0; i < replicas; ++i) {
    router::ReplicaSpec replica;
    replica.identity = "m@" + std::to_string(i);
    model.replicas.push_back(std::move(replica));
  }
  auto table = router::RouteTable::Build({std::move(model)});
  if (!table.ok()) std::abort();
  return *std::move(table);
}

constexpr conf::TimePoint kNow{std::chrono::seconds(1'000'000)};

void BM_Pick(benchmark::State& state) {
  const auto policy = static_cast<router::PolicyKind>(state.range(0));
  const router::RouteTable table = MakeTable(state.range(1), policy);
  router::ReplicaStates states;
  const router::LoadView load(table, states);
  scheduler::Rng rng(1);
  const bench::AllocationCounter allocations(state);
  for (auto _ : state) {
    benchmark::DoNotOptimize(router::Pick(table, router::ModelId{0}, load, {.tokens = 100}, {}, kNow, rng));
  }
  const std::string_view name = router::PolicyName(policy);
  state.SetLabel(std::string(name));
}
BENCHMARK(BM_Pick)->ArgsProduct({{0, 1, 2, 3}, {2, 16, 1000, 4000}});

void BM_Attempt(benchmark::State& state) {
  const router::RouteTable table = MakeTable(8, router::PolicyKind::kLeastLoad);
  router::ReplicaStates states;
  const router::LoadView load(table, states);
  scheduler::Rng rng(1);
  const bench::AllocationCounter allocations(state);
  for (auto _ : state) {
    router::Attempt attempt(table, load, router::ModelId{0}, {.tokens = 100}, std::nullopt, rng);
    attempt.Resume(router::Event::Of(router::Event::Kind::kStart), kNow);
    attempt.Resume(router::Event::Status(200), kNow);
    attempt.Resume(router::Event::Of(router::Event::Kind::kFirstByte), kNow);
    benchmark::DoNotOptimize(attempt.Resume(router::Event::Of(router::Event::Kind::kCompleted), kNow));
  }
}
BENCHMARK(BM_Attempt);

}  // namespace
