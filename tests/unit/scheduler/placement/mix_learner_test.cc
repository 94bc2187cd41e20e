#include "scheduler/placement/mix_learner.h"

#include <gtest/gtest.h>

#include "tests/unit/scheduler/clusters.h"

namespace scheduler {
namespace {

using namespace testing;

Shape Whole(uint16_t count, int64_t cpu_milli) {
  Shape shape;
  shape.count = count;
  shape.cpu_milli = cpu_milli;
  shape.kinds = 1;
  return shape;
}

double ShareOf(const DemandMix& mix, const Shape& shape) {
  for (const DemandMix::Item& item : mix.items) {
    if (item.shape.count == shape.count && item.shape.cpu_milli == shape.cpu_milli) return item.share;
  }
  return 0;
}

TEST(MixLearner, StartsWithAGuessOfTheClustersOwnProportions) {
  const MixLearner learner(EightWay(4));
  ASSERT_EQ(learner.mix().items.size(), 2u);
  EXPECT_EQ(learner.mix().items[0].shape.milli, 500);
  EXPECT_EQ(learner.mix().items[0].shape.cpu_milli, 8'000);
  EXPECT_EQ(learner.mix().items[1].shape.count, 1);
  EXPECT_EQ(learner.mix().items[1].shape.cpu_milli, 16'000);
  EXPECT_EQ(learner.mix().items[1].share, 0.5);
}

TEST(MixLearner, IsBroughtUpToDateLessAndLessOften) {
  MixLearner learner(EightWay(4));
  std::vector<int> changes;
  for (int i = 1; i <= 3500; ++i) {
    if (learner.Observe(Whole(2, 1000))) changes.push_back(i);
  }
  EXPECT_EQ(changes, (std::vector<int>{30, 45, 67, 100, 150, 225, 337, 505, 757, 1135, 2135, 3135}));
  EXPECT_DOUBLE_EQ(ShareOf(learner.mix(), Whole(2, 1000)), 3135.0 / 3145);
}

TEST(MixLearner, CountsMembersAndChangesOnceForAGang) {
  MixLearner learner(EightWay(4));
  const uint64_t before = learner.mix().version;
  EXPECT_TRUE(learner.Observe(Whole(8, 1000), 512));
  EXPECT_EQ(learner.mix().version, before + 1);
  EXPECT_FALSE(learner.Observe(Whole(8, 1000), 1));
}

TEST(MixLearner, LeavesMemoryAndLabelsOut) {
  MixLearner learner(EightWay(4));
  for (int i = 0; i < 30; ++i) {
    Shape shape = Whole(1, 3000);
    shape.memory_mib = i;
    shape.require = {{"zone", {std::to_string(i)}}};
    learner.Observe(shape);
  }
  EXPECT_EQ(learner.mix().items.size(), 3u);
}

TEST(MixLearner, ContinuesIdenticallyFromItsState) {
  MixLearner learner(EightWay(4));
  const auto ask = [](int i) { return Whole(static_cast<uint16_t>(1 + i % 3), 1000 * (i % 7)); };
  for (int i = 0; i < 200; ++i) learner.Observe(ask(i));
  MixLearner again(learner.state());
  EXPECT_EQ(again.state(), learner.state());
  for (int i = 200; i < 2000; ++i) {
    ASSERT_EQ(learner.Observe(ask(i)), again.Observe(ask(i))) << i;
    ASSERT_EQ(learner.mix().version, again.mix().version);
    ASSERT_EQ(ShareOf(learner.mix(), ask(i)), ShareOf(again.mix(), ask(i)));
  }
}

TEST(MixLearner, StartsFromAnEmptyState) {
  MixLearner learner{LearnedDemand{}};
  EXPECT_TRUE(learner.Observe(Whole(1, 1000)));
  EXPECT_EQ(ShareOf(learner.mix(), Whole(1, 1000)), 1);
  EXPECT_GT(learner.state().next, 1u);
}

TEST(MixLearner, ForgetsRareShapesWhenThereAreTooMany) {
  MixLearner learner(EightWay(4));
  for (int i = 0; i < 20'000; ++i) {
    learner.Observe(Whole(1, i));
    learner.Observe(Whole(4, 1));
  }
  EXPECT_LE(learner.state().seen.size(), MixLearner::kMostShapes);
  EXPECT_GT(ShareOf(learner.mix(), Whole(4, 1)), 0.4);
}

TEST(TypicalItems, AreTheMostFrequentThatCoverEnough) {
  DemandMix mix;
  for (const double share : {0.04, 0.5, 0.3, 0.12, 0.04}) {
    mix.items.push_back({Whole(1, static_cast<int64_t>(mix.items.size())), share});
  }
  EXPECT_EQ(TypicalItems(mix), (std::vector<size_t>{1, 2, 3, 4})) << "of equal ones, the larger";
  EXPECT_EQ(TypicalItems(mix, 0.8), (std::vector<size_t>{1, 2}));
}

}  // namespace
}  // namespace scheduler
