#include "plugins/kv_events/sequence.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace plugins::kv_events {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

using Log = std::vector<std::string>;

class KvEventSequence : public testing::Test, protected Sequence::Sink {
 protected:
  void Apply(std::string_view payload) override { log_.emplace_back(payload); }
  void Clear() override { log_.emplace_back("clear"); }
  void AskReplay(uint64_t from) override { log_.push_back("ask " + std::to_string(from)); }

  Log Take() { return std::exchange(log_, {}); }
  // Connected, with a whole answer of `count` batches.
  void Begin(Sequence& sequence, uint64_t count) {
    sequence.OnUp();
    for (uint64_t i = 0; i < count; ++i) sequence.OnReplayed(i, "b" + std::to_string(i));
    sequence.OnReplayEnd();
    Take();
  }

  Log log_;
  Sequence with_{*this, true};
  Sequence without_{*this, false};
};

TEST_F(KvEventSequence, BeginsWithAllThatIsKept) {
  with_.OnUp();
  EXPECT_EQ(with_.state(), Sequence::State::kReplaying);
  with_.OnMessage(2, "b2");
  with_.OnReplayed(0, "b0");
  with_.OnReplayed(1, "b1");
  with_.OnReplayed(2, "b2");
  with_.OnReplayEnd();
  EXPECT_EQ(with_.state(), Sequence::State::kLive);
  with_.OnMessage(3, "b3");
  EXPECT_THAT(Take(), ElementsAre("ask 0", "b0", "b1", "b2", "b3"));
}

TEST_F(KvEventSequence, WithoutReplayBeginsWithWhatComes) {
  without_.OnMessage(6, "early");
  without_.OnUp();
  EXPECT_EQ(without_.state(), Sequence::State::kLive);
  without_.OnMessage(7, "b7");
  without_.OnMessage(8, "b8");
  EXPECT_THAT(Take(), ElementsAre("b7", "b8"));
}

TEST_F(KvEventSequence, AGapIsReplayed) {
  Begin(with_, 3);
  with_.OnMessage(5, "b5");
  EXPECT_THAT(Take(), ElementsAre("ask 2"));
  with_.OnMessage(6, "b6");
  for (const char* batch : {"b2", "b3", "b4", "b5"})
    with_.OnReplayed(static_cast<uint64_t>(batch[1] - '0'), batch);
  with_.OnReplayEnd();
  EXPECT_THAT(Take(), ElementsAre("b3", "b4", "b5", "b6"));
  EXPECT_EQ(with_.counts().gaps, 1u);
  EXPECT_EQ(with_.counts().clears, 0u);
}

TEST_F(KvEventSequence, AGapWithoutReplayClears) {
  without_.OnUp();
  without_.OnMessage(0, "b0");
  without_.OnMessage(2, "b2");
  EXPECT_THAT(Take(), ElementsAre("b0", "clear", "b2"));
}

TEST_F(KvEventSequence, AGapOlderThanWhatIsKeptClears) {
  Begin(with_, 1);
  with_.OnMessage(9, "b9");
  with_.OnReplayed(8, "b8");
  with_.OnReplayed(9, "b9");
  with_.OnReplayEnd();
  EXPECT_THAT(Take(), ElementsAre("ask 0", "clear", "b8", "b9"));
}

TEST_F(KvEventSequence, AnAnswerThatDoesNotComeClears) {
  Begin(with_, 2);
  with_.OnMessage(4, "b4");
  with_.OnReplayFailed();
  EXPECT_EQ(with_.state(), Sequence::State::kLive);
  with_.OnMessage(5, "b5");
  EXPECT_THAT(Take(), ElementsAre("ask 1", "clear", "b4", "b5"));
  EXPECT_EQ(with_.counts().failed_replays, 1u);
}

TEST_F(KvEventSequence, ABatchThatComesTwiceCountsOnce) {
  Begin(with_, 3);
  with_.OnMessage(1, "b1");
  with_.OnMessage(2, "b2");
  with_.OnMessage(3, "b3");
  with_.OnMessage(3, "b3");
  EXPECT_THAT(Take(), ElementsAre("b3"));
}

TEST_F(KvEventSequence, ANumberThatGoesBackIsARestart) {
  Begin(with_, 3);
  with_.OnMessage(1, "other");
  EXPECT_THAT(Take(), ElementsAre("clear", "ask 0"));
  with_.OnReplayed(0, "new");
  with_.OnReplayed(1, "other");
  with_.OnReplayEnd();
  EXPECT_THAT(Take(), ElementsAre("new", "other"));
  without_.OnUp();
  without_.OnMessage(4, "b4");
  without_.OnMessage(0, "new");
  EXPECT_THAT(Take(), ElementsAre("b4", "clear", "new"));
}

TEST_F(KvEventSequence, TheSameEngineConnectedAgainLosesNothing) {
  Begin(with_, 2);
  with_.OnDown();
  EXPECT_EQ(with_.state(), Sequence::State::kDown);
  with_.OnUp();
  with_.OnReplayed(1, "b1");
  with_.OnReplayed(2, "b2");
  with_.OnReplayEnd();
  EXPECT_THAT(Take(), ElementsAre("ask 1", "b2"));
}

TEST_F(KvEventSequence, AnotherEngineInItsPlaceClears) {
  Begin(with_, 3);
  with_.OnDown();
  with_.OnUp();
  with_.OnReplayEnd();  // it has sent nothing yet
  with_.OnReplayEnd();
  EXPECT_THAT(Take(), ElementsAre("ask 2", "clear", "ask 0"));
  with_.OnMessage(0, "new");
  EXPECT_THAT(Take(), ElementsAre("new"));
}

TEST_F(KvEventSequence, AnotherBatchOfTheSameNumberIsAnotherEngine) {
  Begin(with_, 3);
  with_.OnDown();
  with_.OnUp();
  with_.OnReplayed(2, "y2");
  EXPECT_THAT(Take(), ElementsAre("ask 2", "clear", "ask 0"));
  for (const char* batch : {"y0", "y1", "y2"}) with_.OnReplayed(static_cast<uint64_t>(batch[1] - '0'), batch);
  with_.OnReplayEnd();
  EXPECT_THAT(Take(), ElementsAre("y0", "y1", "y2"));
}

TEST_F(KvEventSequence, WithoutReplayEveryNewConnectionClears) {
  without_.OnUp();
  without_.OnMessage(0, "b0");
  without_.OnDown();
  without_.OnMessage(1, "lost");
  without_.OnUp();
  without_.OnMessage(2, "b2");
  EXPECT_THAT(Take(), ElementsAre("b0", "clear", "b2"));
}

TEST_F(KvEventSequence, AnEngineThatLeavesOutMoreAndMoreIsNotAskedForEver) {
  Begin(with_, 1);
  with_.OnMessage(2, "b2");
  for (uint64_t round = 0; with_.state() == Sequence::State::kReplaying; ++round) {
    ASSERT_LT(round, 20u);
    with_.OnMessage(3 + 2 * round, "later");
    with_.OnReplayed(0, "b0");  // never what is missing
    with_.OnReplayEnd();
  }
  EXPECT_LE(with_.counts().replays, Sequence::kMaxRounds + 2);
}

TEST_F(KvEventSequence, KeepsABoundedNumberWhileItWaits) {
  Begin(with_, 1);
  with_.OnMessage(2, "b2");
  for (uint64_t i = 3; i < 10 * Sequence::kMaxKept; ++i) with_.OnMessage(i, "later");
  with_.OnReplayed(0, "b0");
  with_.OnReplayed(1, "b1");
  with_.OnReplayEnd();
  EXPECT_LE(Take().size(), Sequence::kMaxKept + 4);
}

TEST_F(KvEventSequence, SaysNothingOfAnswersThatNobodyWaitsFor) {
  Begin(with_, 1);
  with_.OnReplayed(1, "b1");
  with_.OnReplayEnd();
  with_.OnReplayFailed();
  EXPECT_THAT(Take(), IsEmpty());
}

}  // namespace
}  // namespace plugins::kv_events
