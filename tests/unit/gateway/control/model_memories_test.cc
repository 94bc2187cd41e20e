// What scaling has learned, in a store that outlives the process.
#include "gateway/control/learned/model_memories.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/loop_test.h"
#include "tests/support/memory_store.h"

namespace gateway::control {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;
using testing::ElementsAre;

ModelMemory Sample() {
  scheduler::autoscale::Hindsight hindsight{scheduler::autoscale::ScalingPolicy{}};
  for (int s = 0; s < 600; ++s) hindsight.Add(s % 7, seconds(90), conf::TimePoint(seconds(1'000 + s)));
  ModelMemory memory{.at = conf::TimePoint(seconds(1'600)), .law = hindsight.memory()};
  memory.peaks = {.first = 2'880'000, .most = {1, 4, 0, 65'535}};
  LearnedStarts::Start& start = memory.starts.emplace_back();
  start.node = "node1";
  start.kind = "h100";
  start.phases[StartPhase::kLoaded] = seconds(31);
  start.phases.transferred = uint64_t{140} << 30;
  memory.cold_starts = {{"h100", seconds(46)}, {"a100", seconds(90)}};
  memory.wakes = {{"h100", seconds(1)}};
  return memory;
}

TEST(ModelMemory, ReadsBackAsItWasWritten) {
  const ModelMemory memory = Sample();
  const absl::StatusOr<ModelMemory> read = ReadModelMemory("chat", BodyOf(memory));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(BodyOf(*read), BodyOf(memory));
  EXPECT_EQ(read->law->load_seconds, memory.law->load_seconds);
  EXPECT_EQ(read->law->holds.back().rules.back().replica_seconds,
            memory.law->holds.back().rules.back().replica_seconds);
  EXPECT_THAT(read->peaks.most, ElementsAre(1, 4, 0, 65'535));
  EXPECT_EQ(read->starts.at(0).phases.start(), seconds(31));
  EXPECT_EQ(read->wakes.at(0).took, seconds(1));
}

TEST(ModelMemory, WhatNobodyWroteIsDataLoss) {
  const std::string whole = BodyOf(Sample());
  for (const std::string& body : {std::string("{}"), std::string("[1]"), std::string(), whole.substr(0, 90),
                                  std::string(R"({"at_us":"x"})")})
    EXPECT_TRUE(absl::IsDataLoss(ReadModelMemory("chat", body).status())) << body;
}

// One process with these models, whose law has learned a number.
class Learner {
 public:
  Learner(tests::TestLoop& loop, store::Store& store, std::vector<std::string> models) {
    context_.now = [this] { return now; };
    context_.spawn = [&loop](net::Task<void> task) { loop.tasks.Spawn(std::move(task)); };
    memories.emplace(context_, store,
                     ModelMemories::Environment{
                         .models = [models] { return models; },
                         .learned = [this](const std::string&) { return ModelMemory{.at = now}; },
                         .recall = [this](const std::string& model,
                                          const ModelMemory& memory) { recalled[model] = memory.at; }});
  }
  conf::TimePoint now{seconds(1'000'000)};
  std::map<std::string, conf::TimePoint> recalled;
  std::optional<ModelMemories> memories;

 private:
  Context context_;
};

TEST(ModelMemories, AreKeptEveryFiveMinutesAndRecalledByTheNextProcess) {
  tests::RunOnLoop([](tests::TestLoop& loop) -> net::Task<void> {
    tests::MemoryStore store;
    Learner before(loop, store, {"chat", "code"});
    EXPECT_TRUE((co_await before.memories->Load()).ok());
    before.memories->Tick();
    EXPECT_EQ(store.Count("model_memory"), 0u) << "nothing was learned yet";
    before.now += ModelMemories::kEvery;
    before.memories->Tick();
    EXPECT_TRUE(co_await tests::Eventually(loop, [&] { return before.memories->under_way() == 0; }));
    EXPECT_EQ(store.Count("model_memory"), 2u);
    before.now += minutes(1);  // and it is killed

    Learner after(loop, store, {"chat"});
    EXPECT_TRUE((co_await after.memories->Load()).ok());
    EXPECT_THAT(after.recalled, ElementsAre(testing::Pair("chat", before.now - minutes(1))));
    co_await after.memories->Save();
    EXPECT_EQ(store.Count("model_memory"), 1u) << "a model without a policy is forgotten";
    co_await after.memories->Save();
    EXPECT_EQ(store.Count("model_memory"), 1u);
  });
}

TEST(ModelMemories, WhatCannotBeReadIsLearnedAnew) {
  tests::RunOnLoop([](tests::TestLoop& loop) -> net::Task<void> {
    tests::MemoryStore store;
    std::vector<store::Write> writes;
    writes.push_back(store::Write::Create("model_memory", "chat", "{"));
    EXPECT_TRUE((co_await store.Commit(std::move(writes))).ok());
    Learner learner(loop, store, {"chat"});
    EXPECT_TRUE((co_await learner.memories->Load()).ok());
    EXPECT_THAT(learner.recalled, testing::IsEmpty());
    co_await learner.memories->Save();
    EXPECT_TRUE((co_await learner.memories->Load()).ok());
    Learner next(loop, store, {"chat"});
    EXPECT_TRUE((co_await next.memories->Load()).ok());
    EXPECT_EQ(next.recalled.size(), 1u);
  });
}

TEST(ModelMemories, AStoreThatRefusesLosesNothingThatWasLearned) {
  tests::RunOnLoop([](tests::TestLoop& loop) -> net::Task<void> {
    tests::MemoryStore store;
    Learner learner(loop, store, {"chat"});
    store.lists = absl::UnavailableError("locked");
    EXPECT_FALSE((co_await learner.memories->Load()).ok());
    co_await learner.memories->Save();  // nothing is overwritten that could not be read
    EXPECT_EQ(store.Count("model_memory"), 0u);
    store.lists = absl::OkStatus();
    EXPECT_TRUE((co_await learner.memories->Load()).ok());
    store.refuses = absl::ResourceExhaustedError("disk full");
    co_await learner.memories->Save();
    store.refuses = absl::OkStatus();
    co_await learner.memories->Save();
    EXPECT_EQ(store.Count("model_memory"), 1u);
  });
}

}  // namespace
}  // namespace gateway::control
