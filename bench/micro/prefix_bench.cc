// The prefix index and its inputs: hashing, insertion and look-up at the length of a prompt, alone
// and from several threads.
#include <benchmark/benchmark.h>

#include <string>
#include <vector>

#include "bench/micro/allocations.h"
#include "router/prefix/block_hash.h"
#include "router/prefix/index.h"
#include "scheduler/rng.h"

namespace {

using router::prefix::BlockHasher;
using router::prefix::Holder;
using router::prefix::Index;
using router::prefix::MemberId;

constexpr conf::TimePoint kNow{std::chrono::seconds(1'000'000)};
constexpr int64_t kBlocksOf100kTokens = 100'000 * 4 / router::prefix::kBlockBytes;

std::vector<uint64_t> Prompt(uint64_t family, int64_t blocks) {
  scheduler::Rng rng(family);
  std::vector<uint64_t> prompt;
  prompt.reserve(static_cast<size_t>(blocks));
  for (int64_t i = 0; i < blocks; ++i) prompt.push_back(rng.Next());
  return prompt;
}

// 64 replicas with full caches: the state of a gateway that has run for a while.
struct Filled {
  Filled() : index({.max_bytes = size_t{64} << 20}) {
    for (int i = 0; i < 64; ++i) members.push_back(*index.Join(8192));
    for (uint64_t i = 0; i < 20'000; ++i) index.Confirm(Prompt(i, 40), members[i % 64], kNow);
    for (const MemberId member : members) index.Confirm(Prompt(1ull << 40, 16), member, kNow);
  }
  Index index;
  std::vector<MemberId> members;
};

Filled& Shared() {
  static Filled filled;
  return filled;
}

void BM_PrefixHash(benchmark::State& state) {
  const std::string text(static_cast<size_t>(state.range(0)) * 4, 'x');
  BlockHasher hasher;
  hasher.Add(text);
  const bench::AllocationCounter allocations(state);
  for (auto _ : state) {
    hasher.Begin(1);
    hasher.Add(text);
    benchmark::DoNotOptimize(hasher.blocks().data());
  }
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(text.size()));
}
BENCHMARK(BM_PrefixHash)->ArgName("tokens")->Arg(1000)->Arg(100'000);

// A prompt whose beginning everybody holds and whose end one replica does.
void BM_PrefixFind(benchmark::State& state) {
  Filled& filled = Shared();
  std::vector<uint64_t> prompt = Prompt(1ull << 40, 16);
  for (const uint64_t block : Prompt(1ull << 41, state.range(0))) prompt.push_back(block);
  filled.index.Confirm(std::span(prompt).first(prompt.size() / 2), filled.members[3], kNow);
  std::vector<Holder> out(32);
  const bench::AllocationCounter allocations(state);
  for (auto _ : state) benchmark::DoNotOptimize(filled.index.Find(prompt, kNow, out));
}
BENCHMARK(BM_PrefixFind)
    ->ArgName("blocks")
    ->Arg(16)
    ->Arg(kBlocksOf100kTokens)
    ->ThreadRange(1, 4)
    ->UseRealTime();

// Each prompt is new: the replica's oldest generation falls out as it goes.
void BM_PrefixInsert(benchmark::State& state) {
  Filled& filled = Shared();
  std::vector<std::vector<uint64_t>> prompts;
  prompts.reserve(64);
  for (uint64_t i = 0; i < 64; ++i) {
    prompts.push_back(
        Prompt((2ull << 40) + i + 1000 * static_cast<uint64_t>(state.thread_index()), state.range(0)));
  }
  size_t i = 0;
  for (auto _ : state) {
    filled.index.Confirm(prompts[i % 64],
                         filled.members[(i * 7 + static_cast<size_t>(state.thread_index())) % 64], kNow);
    ++i;
  }
  state.SetItemsProcessed(static_cast<int64_t>(state.iterations()) * state.range(0));
}
BENCHMARK(BM_PrefixInsert)
    ->ArgName("blocks")
    ->Arg(16)
    ->Arg(kBlocksOf100kTokens)
    ->ThreadRange(1, 4)
    ->UseRealTime();

// A request's whole way through the index: predicted, held while it runs, given back.
void BM_PrefixRun(benchmark::State& state) {
  Filled& filled = Shared();
  std::vector<std::vector<uint64_t>> prompts;
  prompts.reserve(64);
  for (uint64_t i = 0; i < 64; ++i) prompts.push_back(Prompt((3ull << 40) + i, state.range(0)));
  size_t i = 0;
  for (auto _ : state) {
    const std::vector<uint64_t>& prompt = prompts[i % 64];
    const MemberId member = filled.members[(i * 7) % 64];
    filled.index.Predict(prompt, member, kNow);
    filled.index.Hold(prompt, member, kNow);
    filled.index.Release(prompt, member, 1);
    ++i;
  }
  state.SetItemsProcessed(static_cast<int64_t>(state.iterations()) * state.range(0));
}
BENCHMARK(BM_PrefixRun)->ArgName("blocks")->Arg(16)->Arg(kBlocksOf100kTokens);

// Ten million prompts of which no two have anything in common, four blocks each.
void BM_PrefixDistinctPrompts(benchmark::State& state) {
  for (auto _ : state) {
    Index index({.max_bytes = size_t{64} << 20});
    std::vector<MemberId> members;
    members.reserve(64);
    for (int i = 0; i < 64; ++i) members.push_back(*index.Join(1u << 20));
    scheduler::Rng rng(1);
    uint64_t prompt[4];
    for (int64_t i = 0; i < state.range(0); ++i) {
      for (uint64_t& block : prompt) block = rng.Next();
      index.Predict(prompt, members[static_cast<size_t>(i) % 64], kNow + std::chrono::milliseconds(i));
    }
    const router::prefix::IndexStats stats = index.stats();
    state.counters["MiB"] = static_cast<double>(stats.bytes) / (1 << 20);
    state.counters["B/entry"] = stats.BytesPerEntry();
    state.counters["full"] = static_cast<double>(stats.entries) / static_cast<double>(stats.capacity);
  }
  state.SetItemsProcessed(static_cast<int64_t>(state.iterations()) * state.range(0));
}
BENCHMARK(BM_PrefixDistinctPrompts)->Arg(10'000'000)->Iterations(1)->Unit(benchmark::kSecond);

}  // namespace
