#include "scheduler/engine/model.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <vector>

namespace scheduler::engine {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr TimePoint kStart{seconds(1000)};

// 10 ms a step, 1 ms per decoding sequence, 0.1 ms per prompt token, blocks of 4 tokens.
Profile Plain() {
  Profile profile{.name = "test"};
  profile.step_base = milliseconds(10);
  profile.step_per_sequence = milliseconds(1);
  profile.per_prefill_token = microseconds(100);
  profile.max_batched_tokens = 100;
  profile.max_running = 8;
  profile.block_size = 4;
  profile.kv_blocks = 1000;
  return profile;
}

struct Token {
  TimePoint at;
  Event event;
};

// Drives a model in virtual time and keeps what it reports.
class Drive {
 public:
  explicit Drive(Profile profile) : model(std::move(profile), kStart) {}

  Admission Submit(uint64_t id, uint32_t prompt, uint32_t output, std::vector<uint64_t> blocks = {}) {
    return model.Submit(
        {.id = id, .prompt_tokens = prompt, .output_tokens = output, .blocks = std::move(blocks)}, now);
  }
  // One step, if there is anything to do.
  bool Step() {
    if (model.NextStep() == TimePoint::max()) return false;
    now = std::max(now, model.NextStep());
    std::vector<Event> events;
    model.Step(now, events);
    for (const Event& event : events) log[event.id].push_back({now, event});
    return true;
  }
  void Until(TimePoint t) {
    while (model.NextStep() <= t) Step();
    now = t;
  }
  void Finish() {
    for (int i = 0; i < 1'000'000 && Step(); ++i) {
    }
    ASSERT_EQ(model.NextStep(), TimePoint::max());
  }
  TimePoint EndOf(uint64_t id) const {
    const auto& tokens = log.at(id);
    return !tokens.empty() && tokens.back().event.finished ? tokens.back().at : TimePoint::max();
  }
  uint32_t Generated(uint64_t id) const { return log.contains(id) ? log.at(id).back().event.generated : 0; }

  Model model;
  TimePoint now = kStart;
  std::map<uint64_t, std::vector<Token>> log;
};

std::vector<uint64_t> Hashes(uint64_t seed, size_t count) {
  std::vector<uint64_t> hashes(count);
  for (size_t i = 0; i < count; ++i) hashes[i] = seed * 1000 + i + 1;
  return hashes;
}

TEST(EngineModel, OneRequestTakesItsPrefillAndOneStepPerToken) {
  Drive run(Plain());
  ASSERT_EQ(run.Submit(1, 50, 3), Admission::kAccepted);
  run.Finish();
  const auto& tokens = run.log[1];
  ASSERT_EQ(tokens.size(), 3u);
  EXPECT_EQ(tokens[0].at, kStart + milliseconds(10) + microseconds(100) * 50);
  EXPECT_TRUE(tokens[0].event.first);
  EXPECT_EQ(tokens[1].at - tokens[0].at, milliseconds(11));
  EXPECT_FALSE(tokens[1].event.first);
  EXPECT_TRUE(tokens[2].event.finished);
  EXPECT_EQ(tokens[2].event.generated, 3u);
}

TEST(EngineModel, ALongPromptIsComputedInChunksOfTheTokenBudget) {
  Drive run(Plain());
  run.Submit(1, 250, 1);
  run.Finish();
  EXPECT_EQ(run.model.counters().steps, 3u);  // 100 + 100 + 50
  EXPECT_EQ(run.EndOf(1), kStart + milliseconds(30) + microseconds(100) * 250);
}

TEST(EngineModel, DecodingComesBeforePrefillInTheBudget) {
  Profile profile = Plain();
  profile.max_batched_tokens = 10;
  Drive run(profile);
  run.Submit(1, 10, 20);
  run.Step();  // begins
  run.Step();  // first token of 1
  run.Submit(2, 27, 1);
  run.Finish();
  // 9 prompt tokens a step beside the one that decodes: three steps, and 1 has a token in each of them.
  EXPECT_EQ(run.log[1].size(), 20u);
  auto before = std::count_if(run.log[1].begin(), run.log[1].end(),
                              [&](const Token& token) { return token.at <= run.EndOf(2); });
  EXPECT_EQ(before, 1 + 1 + 3);  // its first, the step under way at the arrival, and the three
}

TEST(EngineModel, StepsGrowWithTheBatchAndItsContext) {
  Profile profile = Plain();
  profile.per_context_token = microseconds(1);
  Drive run(profile);
  run.Submit(1, 10, 2);
  run.Submit(2, 20, 2);
  run.Finish();
  Duration decode = run.log[1][1].at - run.log[1][0].at;
  EXPECT_EQ(decode, milliseconds(10) + 2 * milliseconds(1) + microseconds(11 + 21));
  EXPECT_EQ(run.log[2][1].at, run.log[1][1].at);
}

TEST(EngineModel, NothingRunsBeforeTheModelIsLoaded) {
  Profile profile = Plain();
  profile.load_time = seconds(5);
  Drive run(profile);
  EXPECT_FALSE(run.model.Ready(kStart + milliseconds(4999)));
  run.Submit(1, 10, 1);
  EXPECT_EQ(run.model.NextStep(), kStart + seconds(5));
  run.Finish();
  EXPECT_EQ(run.EndOf(1), kStart + seconds(5) + milliseconds(11));
}

TEST(EngineModel, NoMoreThanMaxRunningAtOnceAndFirstComeFirstServed) {
  Profile profile = Plain();
  profile.max_running = 2;
  Drive run(profile);
  for (uint64_t id = 1; id <= 5; ++id) run.Submit(id, 4, 3);
  run.Step();
  EXPECT_EQ(run.model.running(), 2u);
  EXPECT_EQ(run.model.waiting(), 3u);
  run.Finish();
  for (uint64_t id = 1; id < 5; ++id) EXPECT_LE(run.EndOf(id), run.EndOf(id + 1));
  EXPECT_LT(run.EndOf(2), run.EndOf(3));
  EXPECT_EQ(run.model.counters().finished, 5u);
}

TEST(EngineModel, RefusesImpossibleRequestsAndAFullQueue) {
  Profile profile = Plain();
  profile.kv_blocks = 10;  // 40 tokens
  profile.max_waiting = 2;
  Drive run(profile);
  EXPECT_EQ(run.Submit(1, 30, 11), Admission::kTooLong);
  EXPECT_EQ(run.Submit(1, 0, 1), Admission::kTooLong);
  EXPECT_EQ(run.Submit(1, 30, 10), Admission::kAccepted);
  EXPECT_EQ(run.Submit(1, 30, 10), Admission::kDuplicate);
  EXPECT_EQ(run.Submit(2, 30, 10), Admission::kAccepted);
  EXPECT_EQ(run.Submit(3, 30, 10), Admission::kQueueFull);
  EXPECT_EQ(run.model.counters().rejected, 4u);
  run.Finish();
  EXPECT_EQ(run.Generated(1), 10u);
  EXPECT_EQ(run.Generated(2), 10u);
}

TEST(EngineModel, PromptOnlyRequestsFinishWithTheirPrefill) {
  Drive run(Plain());
  run.Submit(1, 30, 0);
  run.Finish();
  ASSERT_EQ(run.log[1].size(), 1u);
  EXPECT_TRUE(run.log[1][0].event.finished);
  EXPECT_EQ(run.log[1][0].event.tokens, 0u);
  EXPECT_EQ(run.model.counters().generated_tokens, 0u);
  EXPECT_EQ(run.model.counters().prompt_tokens, 30u);
}

TEST(EngineModel, ASharedPrefixIsComputedOnce) {
  Drive run(Plain());
  run.Submit(1, 42, 1, Hashes(7, 10));
  run.Finish();
  EXPECT_EQ(run.log[1][0].event.cached_tokens, 0u);
  TimePoint submitted = run.now;
  run.Submit(2, 42, 1, Hashes(7, 10));
  run.Finish();
  EXPECT_EQ(run.log[2][0].event.cached_tokens, 40u);
  EXPECT_EQ(run.EndOf(2) - submitted, milliseconds(10) + 2 * microseconds(100));
  EXPECT_EQ(run.model.counters().prefix_queries, 84u);
  EXPECT_EQ(run.model.counters().prefix_hits, 40u);
}

TEST(EngineModel, AWhollyCachedPromptStillComputesItsLastBlock) {
  Drive run(Plain());
  run.Submit(1, 40, 1, Hashes(7, 10));
  run.Finish();
  run.Submit(2, 40, 1, Hashes(7, 10));
  run.Finish();
  EXPECT_EQ(run.log[2][0].event.cached_tokens, 36u);
}

TEST(EngineModel, TheNextTurnFindsTheAnswerInTheCacheToo) {
  Drive run(Plain());
  run.Submit(1, 8, 9, Hashes(7, 4));  // 8 + 9 tokens; the last one's KV is never computed: 4 full blocks
  run.Finish();
  run.Submit(2, 24, 1, Hashes(7, 6));
  run.Finish();
  EXPECT_EQ(run.log[2][0].event.cached_tokens, 16u);
}

TEST(EngineModel, WithoutPrefixCachingNothingIsLookedUp) {
  Profile profile = Plain();
  profile.prefix_caching = false;
  Drive run(profile);
  run.Submit(1, 40, 1, Hashes(7, 10));
  run.Finish();
  run.Submit(2, 40, 1, Hashes(7, 10));
  run.Finish();
  EXPECT_EQ(run.log[2][0].event.cached_tokens, 0u);
  EXPECT_EQ(run.model.counters().prefix_queries, 0u);
}

TEST(EngineModel, PreemptsTheYoungestWhenKvRunsOutAndLosesNoToken) {
  Profile profile = Plain();
  profile.kv_blocks = 10;  // 40 tokens: two sequences of 12 + 20 do not fit together
  Drive run(profile);
  run.Submit(1, 12, 20);
  run.Submit(2, 12, 20);
  run.Finish();
  EXPECT_GE(run.model.counters().preemptions, 1u);
  EXPECT_LT(run.EndOf(1), run.EndOf(2));
  EXPECT_EQ(run.log[1].size(), 20u);
  EXPECT_EQ(run.log[2].size(), 20u);
  EXPECT_EQ(run.model.counters().generated_tokens, 40u);
  EXPECT_EQ(run.model.kv_use(), 0.0);
}

TEST(EngineModel, KvUseCountsRunningSequences) {
  Profile profile = Plain();
  profile.kv_blocks = 100;
  Drive run(profile);
  run.Submit(1, 80, 4, Hashes(1, 20));
  run.Step();
  EXPECT_DOUBLE_EQ(run.model.kv_use(), 0.20);
  run.Finish();
  EXPECT_EQ(run.model.kv_use(), 0.0);  // cached, but held by nobody
  EXPECT_EQ(run.model.kv().cached(), 20u);
}

TEST(EngineModel, CancelFreesEveryPhaseAtOnceAndCountsIt) {
  Profile profile = Plain();
  profile.max_running = 2;
  Drive run(profile);
  run.Submit(1, 4, 50);
  run.Step();
  run.Step();
  run.Step();
  ASSERT_EQ(run.Generated(1), 2u);
  run.Submit(2, 300, 50);
  run.Submit(3, 4, 50);
  run.Step();  // 2 in prefill, 3 waiting
  EXPECT_EQ(run.model.Cancel(3, run.now), Phase::kWaiting);
  EXPECT_EQ(run.model.Cancel(2, run.now), Phase::kPrefill);
  EXPECT_EQ(run.model.Cancel(1, run.now), Phase::kDecode);
  EXPECT_EQ(run.model.Cancel(1, run.now), Phase::kUnknown);
  const Counters& counters = run.model.counters();
  EXPECT_EQ(counters.cancelled_waiting, 1u);
  EXPECT_EQ(counters.cancelled_prefill, 1u);
  EXPECT_EQ(counters.cancelled_decode, 1u);
  EXPECT_EQ(counters.cancelled_tokens, 4u);  // 3 that were there and the one under way
  EXPECT_EQ(counters.generated_tokens, 4u);
  EXPECT_EQ(run.model.kv_use(), 0.0);
  run.Finish();
  EXPECT_EQ(counters.generated_tokens, 4u);
  EXPECT_EQ(counters.finished, 0u);
}

TEST(EngineModel, ARequestThatComesDuringAStepWaitsForItsEnd) {
  Drive run(Plain());
  run.Submit(1, 10, 5);
  run.Step();
  run.now += milliseconds(3);
  run.Submit(2, 10, 1);
  EXPECT_EQ(run.model.NextStep(), kStart + milliseconds(11));
  run.Finish();
  EXPECT_EQ(run.EndOf(2), kStart + milliseconds(11) + milliseconds(10 + 1 + 1));
}

TEST(EngineModel, AnEngineWithoutDelaysFinishesInNoTime) {
  Profile profile{.name = "instant"};
  Drive run(profile);
  run.Submit(1, 100, 100);
  run.Finish();
  EXPECT_EQ(run.EndOf(1), kStart);
}

TEST(EngineModel, SpeedUpDividesEveryDelay) {
  Profile profile = Plain();
  profile.load_time = seconds(2);
  Drive run(SpeedUp(profile, 10));
  run.Submit(1, 50, 2);
  run.Finish();
  EXPECT_EQ(run.EndOf(1), kStart + milliseconds(200) + microseconds(1500) + microseconds(1100));
}

// A mixed load with arrivals and cancellations in the middle of steps, run step by step and in fused steps.
TEST(EngineModel, FusedStepsGiveTheSameTimesWithFewerOfThem) {
  auto drive = [](uint32_t fused) {
    Profile profile = Plain();
    profile.per_context_token = microseconds(3);
    profile.max_fused_steps = fused;
    Drive run(profile);
    uint32_t x = 12345;
    auto draw = [&x](uint32_t bound) {
      x = x * 1664525u + 1013904223u;
      return (x >> 8) % bound;
    };
    for (uint64_t id = 1; id <= 60; ++id) {
      run.Submit(id, 1 + draw(180), 1 + draw(90), Hashes(id % 5, 40));
      if (id % 7 == 0) run.model.Cancel(id - 3, run.now);
      run.Until(run.now + milliseconds(1 + draw(300)));
    }
    run.Finish();
    return run;
  };
  Drive single = drive(1);
  Drive fused = drive(64);
  ASSERT_EQ(single.log.size(), fused.log.size());
  for (const auto& [id, tokens] : single.log) {
    EXPECT_EQ(tokens.front().event.first, fused.log[id].front().event.first);
    if (single.EndOf(id) == TimePoint::max()) continue;
    // Fused iterations are summed before they are rounded to nanoseconds.
    Duration apart = single.EndOf(id) - fused.EndOf(id);
    EXPECT_LT(std::chrono::abs(apart), microseconds(1)) << "request " << id;
  }
  EXPECT_EQ(single.model.counters().generated_tokens, fused.model.counters().generated_tokens);
  EXPECT_EQ(single.model.counters().cancelled_tokens, fused.model.counters().cancelled_tokens);
  EXPECT_EQ(single.model.counters().prefix_hits, fused.model.counters().prefix_hits);
  EXPECT_LT(fused.model.counters().steps * 3, single.model.counters().steps);
}

// Whatever comes, blocks are neither lost nor invented, and everything accepted finishes or is cancelled.
TEST(EngineModel, KeepsItsBooksUnderKvPressure) {
  for (uint32_t fused : {1u, 16u}) {
    Profile profile = Plain();
    profile.kv_blocks = 60;
    profile.max_fused_steps = fused;
    Drive run(profile);
    uint32_t x = 99;
    auto draw = [&x](uint32_t bound) {
      x = x * 1664525u + 1013904223u;
      return (x >> 8) % bound;
    };
    uint64_t accepted = 0;
    uint64_t cancelled = 0;
    for (uint64_t id = 1; id <= 300; ++id) {
      if (run.Submit(id, 1 + draw(120), 1 + draw(120), Hashes(id % 4, draw(40))) == Admission::kAccepted)
        ++accepted;
      if (draw(5) == 0 && run.model.Cancel(1 + draw(static_cast<uint32_t>(id)), run.now) != Phase::kUnknown) {
        ++cancelled;
      }
      run.Until(run.now + milliseconds(draw(200)));
      ASSERT_LE(run.model.kv().used(), 60u);
      ASSERT_LE(run.model.running(), profile.max_running);
    }
    run.Finish();
    EXPECT_GT(run.model.counters().preemptions, 0u);
    EXPECT_GT(cancelled, 0u);
    EXPECT_EQ(run.model.counters().finished + cancelled, accepted);
    EXPECT_EQ(run.model.counters().cancelled(), cancelled);
    EXPECT_EQ(run.model.kv().used(), 0u);
  }
}

TEST(BlockHasher, HashesOnlyFullBlocksAndChainsThem) {
  auto hash = [](std::vector<uint64_t> tokens) {
    BlockHasher hasher(2);
    for (uint64_t token : tokens) hasher.Add(token);
    return hasher.Take();
  };
  auto base = hash({1, 2, 3, 4, 5});
  ASSERT_EQ(base.size(), 2u);
  EXPECT_EQ(hash({1, 2, 3, 4}), base);
  EXPECT_EQ(hash({1, 2, 9, 9})[0], base[0]);
  EXPECT_NE(hash({1, 2, 9, 9})[1], base[1]);
  EXPECT_NE(hash({9, 2, 3, 4})[1], base[1]);
  EXPECT_NE(hash({1, 2, 1, 2})[1], hash({1, 2, 1, 2})[0]);
}

// One adapter a slot, 40 ms to load one.
Profile WithAdapters(uint32_t slots) {
  Profile profile = Plain();
  profile.max_loras = slots;
  profile.lora_load = milliseconds(40);
  return profile;
}

void SubmitFor(Drive& run, uint64_t id, uint32_t adapter, uint32_t output) {
  run.model.Submit({.id = id, .prompt_tokens = 10, .output_tokens = output, .adapter = adapter, .blocks = {}},
                   run.now);
}

TEST(EngineModel, LoadingAnAdapterLengthensItsFirstStepOnly) {
  Drive run(WithAdapters(2));
  SubmitFor(run, 1, 7, 2);
  run.Finish();
  EXPECT_EQ(run.log[1][0].at, kStart + milliseconds(10 + 1 + 40));
  EXPECT_EQ(run.log[1][1].at - run.log[1][0].at, milliseconds(11));
  const TimePoint then = run.now;
  SubmitFor(run, 2, 7, 1);
  run.Finish();
  EXPECT_EQ(run.EndOf(2), then + milliseconds(11));
  EXPECT_EQ(run.model.adapters().loads(), 1u);
}

TEST(EngineModel, SkipsRequestsWithoutAnAdapterSlot) {
  Drive run(WithAdapters(1));
  SubmitFor(run, 1, 1, 5);
  SubmitFor(run, 2, 2, 1);
  SubmitFor(run, 3, 1, 1);
  SubmitFor(run, 4, 0, 1);
  run.Step();
  EXPECT_EQ(run.model.running(), 3u);
  EXPECT_EQ(run.model.WaitingAdapters(), std::vector<uint32_t>{2});
  EXPECT_EQ(run.model.adapters().InUse(), std::vector<uint32_t>{1});
  run.Finish();
  EXPECT_GT(run.EndOf(2), run.EndOf(1));
  EXPECT_LT(run.EndOf(3), run.EndOf(1));
  EXPECT_EQ(run.model.adapters().evictions(), 1u);
  EXPECT_EQ(run.model.adapters().Loaded(), std::vector<uint32_t>{2});
}

TEST(EngineModel, AFinishedRequestFreesItsAdapterSlot) {
  Drive run(WithAdapters(1));
  SubmitFor(run, 1, 1, 1000);
  SubmitFor(run, 2, 2, 1);
  run.Step();
  run.Step();
  run.model.Cancel(1, run.now);
  run.Finish();
  EXPECT_NE(run.EndOf(2), TimePoint::max());
  EXPECT_TRUE(run.model.adapters().InUse().empty());
}

}  // namespace
}  // namespace scheduler::engine
