// Queues share a simulated cluster as they deserve: a day of bursts and borrowers under the planner.
#include "bench/scheduling/fair_share.h"

#include <gtest/gtest.h>

namespace bench::scheduling {
namespace {

constexpr conf::Duration kHalfLife = std::chrono::hours(4);

const FairShareOutcome& Day() {
  static const FairShareOutcome outcome = MeasureFairShare({.half_life = kHalfLife});
  return outcome;
}

// Jobs of one device each: room is room wherever it is made.
const FairShareOutcome& DayOfSingleDevices() {
  static const FairShareOutcome outcome =
      MeasureFairShare({.nodes = 16, .half_life = kHalfLife, .largest = 1});
  return outcome;
}

TEST(FairShare, EachQueueGetsItsDeservedWithinOneHalfLife) {
  EXPECT_GE(Day().demands, 7u);  // three from the start, one in four bursts
  EXPECT_EQ(Day().unmet, 0u);
  EXPECT_LE(Day().longest, kHalfLife);
  for (const QueueOutcome& queue : Day().queues) {
    EXPECT_GE(queue.satisfaction, 0.98) << queue.name;
  }
}

TEST(FairShare, AStarvedQueueIsServedInOneCycle) {
  for (const FairShareOutcome* day : {&Day(), &DayOfSingleDevices()}) {
    EXPECT_GT(day->reclaims, 0u);
    EXPECT_EQ(day->unmet, 0u);
    EXPECT_EQ(day->most_cycles, 1u);
    EXPECT_TRUE(day->first_cycle);
  }
}

TEST(FairShare, WithoutReclaimAStarvedQueueWaitsForOthersToEnd) {
  const FairShareOutcome without = MeasureFairShare({.half_life = kHalfLife, .reclaim = false});
  EXPECT_EQ(without.reclaims, 0u);
  EXPECT_GT(without.longest, 4 * Day().longest);
}

TEST(FairShare, JainOverTheDay) {
  int always = 0;
  for (const QueueOutcome& queue : Day().queues) always += queue.always_wanted;
  EXPECT_EQ(always, 3);
  EXPECT_GE(Day().jain_of_ratios, 0.98);
  EXPECT_GE(Day().jain, 0.98);
}

TEST(FairShare, NoQueueTakesBackWhatWasReclaimedFromIt) {
  EXPECT_GT(DayOfSingleDevices().reclaims, 0u);
  EXPECT_EQ(DayOfSingleDevices().reversals, 0u);
  EXPECT_EQ(DayOfSingleDevices().most_of_one_job, 1u);
  EXPECT_GT(Day().reclaims, 0u);
  EXPECT_LE(100 * Day().reversals, Day().reclaims);
}

}  // namespace
}  // namespace bench::scheduling
