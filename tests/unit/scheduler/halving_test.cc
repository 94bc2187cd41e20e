#include "scheduler/halving.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace scheduler {
namespace {

TEST(Halving, RungsAreAtFactorTimesTheSteps) {
  const Halving halving({.first = 100, .factor = 3});
  EXPECT_EQ(halving.RungsAt(99), 0u);
  EXPECT_EQ(halving.RungsAt(100), 1u);
  EXPECT_EQ(halving.RungsAt(299), 1u);
  EXPECT_EQ(halving.RungsAt(900), 3u);
  EXPECT_LE(Halving({.first = 1, .factor = 2}).RungsAt(UINT64_MAX), Halving::kMostRungs);
}

TEST(Halving, OnlyTheBestPartOfThoseAtARungGoesOn) {
  Halving halving({.first = 10, .factor = 3});
  EXPECT_FALSE(halving.Reach(0, 5).stops);  // the first is the best so far
  EXPECT_TRUE(halving.Reach(0, 6).stops);
  EXPECT_FALSE(halving.Reach(0, 4).stops);
  EXPECT_TRUE(halving.Reach(0, 9).stops);
  EXPECT_TRUE(halving.Reach(0, 8).stops);
  EXPECT_FALSE(halving.Reach(0, 4.5).stops);  // the second of six
  const HalvingVerdict verdict = halving.Reach(0, 7);
  EXPECT_TRUE(verdict.stops);
  EXPECT_EQ(verdict.why,
            "at step 10 its value 7 ranks 5 of 7, and only the best 2 continue (the best value is 4)");
  EXPECT_FALSE(halving.Reach(1, 100).stops);  // another rung
}

TEST(Halving, TheGreatestGoOnWhereTheGoalIsToMaximize) {
  Halving halving({.first = 10, .factor = 2, .maximize = true});
  EXPECT_FALSE(halving.Reach(0, 5).stops);
  EXPECT_TRUE(halving.Reach(0, 4).stops);
  EXPECT_FALSE(halving.Reach(0, 6).stops);
}

TEST(Halving, ValuesThatAreRestoredCount) {
  Halving halving({.first = 10, .factor = 2});
  halving.Restore(0, 1);
  EXPECT_TRUE(halving.Reach(0, 2).stops);
}

}  // namespace
}  // namespace scheduler
