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

}  // namespace
}  // namespace router
