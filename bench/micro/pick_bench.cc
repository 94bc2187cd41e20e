// Pick with each policy over a model's replicas, charge and settlement included: time and allocations an
// operation.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <deque>
#include <string>
#include <vector>

#include "bench/micro/allocations.h"
#include "router/admission/dispatch_plan.h"
#include "router/admission/headroom_search.h"
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
BENCHMARK(BM_Pick)->ArgsProduct({benchmark::CreateDenseRange(0, router::kPolicyKinds - 1, 1),
                                 {2, 16, 1000, 4000}});

// What a request pays that need not wait: replicas that have room, and, at worst, none of them.
void BM_FindHeadroom(benchmark::State& state) {
  const auto replicas = static_cast<uint32_t>(state.range(0));
  router::ModelSpec model;
  model.name = "m";
  model.headroom = router::HeadroomLimits{.max_running = 1};
  for (uint32_t i = 0; i < replicas; ++i) {
    router::ReplicaSpec replica;
    replica.identity = "m@" + std::to_string(i);
    model.replicas.push_back(std::move(replica));
  }
  const auto table = router::RouteTable::Build({std::move(model)});
  if (!table.ok()) std::abort();
  router::ReplicaStates states;
  const router::LoadView load(*table, states);
  const auto headroom_hint = static_cast<uint32_t>(state.range(1) != 0 ? replicas / 2 : replicas);
  std::vector<router::Charge> held;
  for (uint32_t i = 0; i < replicas; ++i) {
    if (i == headroom_hint) continue;
    held.emplace_back(load.shared(router::ReplicaId{i}), router::Work{}, router::Admission::kAdmitted, kNow);
  }
  for (auto _ : state) {
    benchmark::DoNotOptimize(router::FindHeadroom(*table, router::ModelId{0}, load, 1, kNow));
  }
}
BENCHMARK(BM_FindHeadroom)->ArgNames({"replicas", "room"})->ArgsProduct({{8, 4000}, {1, 0}});

// A pass over the waiting requests, each with its prompt at a busy replica: what a place that becomes free
// costs at most, under the queue's lock.
void BM_DispatchPlan(benchmark::State& state) {
  const auto replicas = static_cast<uint32_t>(state.range(0));
  router::ModelSpec model;
  model.name = "m";
  model.policy = router::PolicyKind::kCost;
  model.headroom = router::HeadroomLimits{};
  for (uint32_t i = 0; i < replicas; ++i) model.replicas.emplace_back().identity = "m@" + std::to_string(i);
  const auto table = router::RouteTable::Build({std::move(model)});
  if (!table.ok()) std::abort();
  router::ReplicaStates states;
  const router::LoadView load(*table, states);
  std::vector<router::Charge> there;
  for (uint32_t i = 0; i < replicas; ++i) {
    const auto prompt = [&](int64_t tokens) -> router::Charge& {
      return there.emplace_back(load.shared(router::ReplicaId{i}), router::Work{.uncached = tokens},
                                router::Admission::kAdmitted, kNow);
    };
    for (const int64_t tokens : {10'000, 1'000})  // its rate is measured
      prompt(tokens).FirstToken(kNow + std::chrono::microseconds(100 * tokens));
    if (i > 0) prompt(100'000);
  }
  scheduler::Rng rng(1);
  for (auto _ : state) {
    router::DispatchPlan plan(*table, router::ModelId{0}, load, kNow + std::chrono::seconds(2), rng);
    for (uint32_t i = 0; i < static_cast<uint32_t>(state.range(1)); ++i) {
      const router::PrefixMatch held{router::ReplicaId{1 + i % (replicas - 1)}, 900'000};
      const router::PickFacts facts{
          .tokens = 900'300, .prompt_tokens = 900'100, .output_tokens = 300, .cached = {&held, 1}};
      benchmark::DoNotOptimize(plan.Consider(router::ModelId{0}, facts));
    }
  }
}
BENCHMARK(BM_DispatchPlan)->ArgNames({"replicas", "waiting"})->ArgsProduct({{8, 64, 1000}, {1, 32}});

// The whole way to a choice by cost: a prompt of so many blocks is looked up in a full index, candidates are
// gathered and weighed, the choice is charged and predicted. Each pick is timed for its p99.
void BM_RouteByCost(benchmark::State& state) {
  const auto replicas = static_cast<size_t>(state.range(0));
  const auto blocks = static_cast<size_t>(state.range(1));
  router::prefix::Index index({.max_bytes = size_t{256} << 20});
  const router::RouteTable table = MakeTable(state.range(0), router::PolicyKind::kCost);
  router::ReplicaStates states(&index);
  const router::LoadView load(table, states);
  scheduler::Rng rng(1);
  std::vector<std::vector<uint64_t>> prompts(256);
  std::vector<uint64_t> beginning(16);
  for (uint64_t& block : beginning) block = rng.Next();
  for (size_t i = 0; i < prompts.size(); ++i) {
    prompts[i] = beginning;
    while (prompts[i].size() < blocks) prompts[i].push_back(rng.Next());
    for (int holder = 0; holder < 4; ++holder) {
      const auto id = static_cast<router::ReplicaId>(rng.Uniform(replicas));
      const std::span part(prompts[i].data(), 16 + rng.Uniform(blocks - 15));
      index.Confirm(part, *load[id].member, kNow);
    }
  }
  std::vector<int64_t> finding;
  std::vector<int64_t> picking;
  finding.reserve(1 << 20);
  picking.reserve(1 << 20);
  std::deque<router::Charge> under_way;
  for (auto _ : state) {
    const std::vector<uint64_t>& prompt = prompts[rng.Uniform(prompts.size())];
    const auto begin = std::chrono::steady_clock::now();
    router::prefix::Holder holders[32];
    router::PrefixMatch matches[32];
    const size_t held = index.Find(prompt, kNow, holders);
    const auto found = std::chrono::steady_clock::now();
    const size_t known =
        router::MatchesOf(load, std::span(holders).first(held), prompt.size(), 100'000, matches);
    const router::PickFacts facts{.tokens = 100'300,
                                  .prompt_tokens = 100'000,
                                  .output_tokens = 300,
                                  .affinity = prompt[0],
                                  .cached = std::span(matches).first(known)};
    router::Decision decision = router::Pick(table, router::ModelId{0}, load, facts, {}, kNow, rng);
    const auto end = std::chrono::steady_clock::now();
    if (finding.size() < finding.capacity()) {
      finding.push_back((found - begin).count());
      picking.push_back((end - found).count());
    }
    under_way.push_back(std::move(decision.charge));
    if (under_way.size() > replicas) under_way.pop_front();
  }
  for (const auto& [name, nanos] : {std::pair("find", &finding), std::pair("pick", &picking)}) {
    std::ranges::sort(*nanos);
    state.counters[std::string(name) + "_p50_us"] = static_cast<double>((*nanos)[nanos->size() / 2]) * 1e-3;
    state.counters[std::string(name) + "_p99_us"] =
        static_cast<double>((*nanos)[nanos->size() * 99 / 100]) * 1e-3;
  }
}
BENCHMARK(BM_RouteByCost)->ArgNames({"replicas", "blocks"})->ArgsProduct({{16, 1000, 4000}, {32, 1562}});

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
