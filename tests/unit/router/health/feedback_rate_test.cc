#include "router/health/feedback_rate.h"

#include <gtest/gtest.h>

namespace router {
namespace {

TEST(FeedbackRate, HasWilsonsIntervalAlsoForFewSamplesAndExtremeRates) {
  struct Case {
    FeedbackTally tally;
    double rate, low, high;
  };
  for (const Case& c :
       {Case{{0, 10}, 0, 0, 0.2775}, Case{{5, 5}, 0.5, 0.2366, 0.7634}, Case{{10, 0}, 1, 0.7225, 1},
        Case{{1, 0}, 1, 0.2065, 1}, Case{{90, 10}, 0.9, 0.8256, 0.9448}}) {
    const std::optional<FeedbackRate> rate = RateOf(c.tally);
    ASSERT_TRUE(rate);
    EXPECT_NEAR(rate->rate, c.rate, 1e-9);
    EXPECT_NEAR(rate->low, c.low, 1e-4);
    EXPECT_NEAR(rate->high, c.high, 1e-4);
  }
  EXPECT_FALSE(RateOf({}));
}

// The example of Newcombe (1998): 56 of 70 against 48 of 80.
TEST(FeedbackRate, TwoVersionsDifferOnlyWhereTheIntervalOfTheDifferenceHasNoZero) {
  const FeedbackComparison better = CompareFeedback({48, 32}, {56, 14});
  EXPECT_NEAR(better.difference, 0.2, 1e-9);
  EXPECT_NEAR(better.low, 0.0524, 1e-4);
  EXPECT_NEAR(better.high, 0.3339, 1e-4);
  EXPECT_EQ(better.verdict, FeedbackVerdict::kBetter);
  EXPECT_EQ(CompareFeedback({56, 14}, {48, 32}).verdict, FeedbackVerdict::kWorse);
  EXPECT_EQ(CompareFeedback({50, 50}, {52, 48}).verdict, FeedbackVerdict::kNoDifference);
}

TEST(FeedbackRate, FewSamplesGiveNoVerdict) {
  EXPECT_EQ(CompareFeedback({0, 29}, {500, 0}).verdict, FeedbackVerdict::kTooFew);
  EXPECT_EQ(CompareFeedback({0, 30}, {29, 0}).verdict, FeedbackVerdict::kTooFew);
  EXPECT_EQ(CompareFeedback({0, 30}, {30, 0}).verdict, FeedbackVerdict::kBetter);
  EXPECT_EQ(CompareFeedback({}, {30, 0}).verdict, FeedbackVerdict::kTooFew);
  EXPECT_EQ(Name(FeedbackVerdict::kTooFew), "too_few");
}

}  // namespace
}  // namespace router
