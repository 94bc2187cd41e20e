#include "router/facts/token_estimate.h"

#include <gtest/gtest.h>

#include <limits>
#include <thread>
#include <vector>

namespace router {
namespace {

TEST(TokenEstimate, StartsFromSaneValues) {
  const TokenEstimate estimate;
  EXPECT_EQ(estimate.Prompt(4000), 1000);
  EXPECT_EQ(estimate.Prompt(0), 1);
  EXPECT_EQ(estimate.Prompt(0, 77), 77);
  EXPECT_GT(estimate.Prompt(0, 0, 2), 500);
  EXPECT_EQ(estimate.ExpectedOutput(std::nullopt), 256);
  EXPECT_EQ(estimate.ExpectedOutput(16), 16);
  EXPECT_EQ(estimate.ExpectedOutput(100'000), 256);
  EXPECT_EQ(estimate.OutputOfText(160, 12), 40);
  EXPECT_EQ(estimate.OutputOfText(16, 12), 12) << "each event with text has a token";
  EXPECT_EQ(estimate.LongOutput(), 512);
}

TEST(TokenEstimate, LearnsAModelsRatios) {
  TokenEstimate estimate;
  for (int i = 0; i < 200; ++i) {
    estimate.LearnPrompt(1000, 500);
    estimate.LearnOutput(1000, 2500);
  }
  EXPECT_NEAR(static_cast<double>(estimate.Prompt(10'000)), 5'000, 50);
  EXPECT_NEAR(static_cast<double>(estimate.OutputOfText(500, 1)), 200, 2);
  EXPECT_NEAR(static_cast<double>(estimate.ExpectedOutput(std::nullopt)), 1000, 10);
}

TEST(TokenEstimate, NeverLearnsFromWhatWasNotShown) {
  TokenEstimate estimate;
  for (int i = 0; i < 200; ++i) {
    estimate.LearnOutput(2000, 100);  // most of it was thought, and hidden
    estimate.LearnOutput(3, 4000);    // the report is of something else
    estimate.LearnOutput(500, 0);
  }
  EXPECT_EQ(estimate.OutputOfText(196, 49), 49);
}

TEST(TokenEstimate, LearnsUncommonTextOnlyWhereNothingCanHaveBeenHidden) {
  TokenEstimate estimate;
  for (int i = 0; i < 500; ++i) estimate.LearnOutput(900, 1000);  // half of it may have been thought
  EXPECT_EQ(estimate.OutputOfText(1000, 1), 250);
  for (int i = 0; i < 500; ++i) estimate.LearnOutput(900, 1000, true);
  EXPECT_NEAR(static_cast<double>(estimate.OutputOfText(1000, 1)), 900, 10);
}

TEST(TokenEstimate, RemembersForAWhileThatTokensWereHidden) {
  TokenEstimate estimate;
  EXPECT_FALSE(estimate.Hides());
  estimate.LearnHidden(true);
  for (int i = 0; i < 999; ++i) estimate.LearnHidden(false);
  EXPECT_TRUE(estimate.Hides());
  estimate.LearnHidden(false);
  EXPECT_FALSE(estimate.Hides());
}

TEST(TokenEstimate, KnowsWhatAlmostAllAnswersStayWithin) {
  TokenEstimate estimate;
  for (int round = 0; round < 50; ++round) {
    for (int64_t output = 1; output <= 100; ++output) estimate.LearnUnbounded((output * 37) % 101 * 10);
  }
  EXPECT_NEAR(static_cast<double>(estimate.LongOutput()), 950, 100);
  for (int i = 0; i < 10'000; ++i) estimate.LearnUnbounded(std::numeric_limits<int64_t>::max());
  EXPECT_EQ(estimate.LongOutput(), 131'072);
  for (int i = 0; i < 10'000; ++i) estimate.LearnUnbounded(0);
  EXPECT_EQ(estimate.LongOutput(), 1);
}

TEST(TokenEstimate, EstimatesTheLengthOfAnAnswerWhileItIsWritten) {
  TokenEstimate estimate;
  EXPECT_DOUBLE_EQ(estimate.MeanOutput(std::nullopt).mean, 256);
  EXPECT_DOUBLE_EQ(estimate.MeanOutput(std::nullopt).written, 128);
  estimate.LearnOutput(100, 0);
  EXPECT_DOUBLE_EQ(estimate.MeanOutput(std::nullopt).mean, 100) << "nothing is left of the first guess";
  // Of ten tokens that are being written five and a half belong to the long one.
  for (int i = 0; i < 20'000; ++i) estimate.LearnOutput(i % 10 == 0 ? 1100 : 100, 0);
  const double written = (0.9 * 100 * 100 + 0.1 * 1100 * 1100) / (2 * 200);
  EXPECT_NEAR(estimate.MeanOutput(std::nullopt).mean, 200, 10);
  EXPECT_NEAR(estimate.MeanOutput(std::nullopt).written, written, 15);
  EXPECT_DOUBLE_EQ(estimate.MeanOutput(50).mean, 50);
  EXPECT_DOUBLE_EQ(estimate.MeanOutput(50).written, 25) << "all are cut off";
  EXPECT_NEAR(estimate.MeanOutput(400).mean, 200, 10);
  EXPECT_DOUBLE_EQ(estimate.MeanOutput(400).written, 200) << "no answer has more than the bound";
  EXPECT_NEAR(estimate.MeanOutput(100'000).written, written, 15);
  EXPECT_EQ(estimate.MeanOutput(-3).mean, 0);
  for (int i = 0; i < 2'000; ++i) estimate.LearnOutput(std::numeric_limits<int64_t>::max(), 1);
  EXPECT_LE(estimate.MeanOutput(std::nullopt).mean, 131'072);
}

TEST(TokenEstimate, ExpectsTheShareOfAPromptThatEnginesReportedAsCached) {
  TokenEstimate estimate;
  EXPECT_EQ(estimate.Cached(1000), 0) << "nothing has been reported";
  // By tokens: of 11,000 in two prompts, 5,000 were cached.
  for (int i = 0; i < 400; ++i) {
    estimate.LearnCached(10'000, 5'000);
    estimate.LearnCached(1'000, 0);
  }
  EXPECT_NEAR(static_cast<double>(estimate.Cached(1000)), 455, 25);
  EXPECT_EQ(estimate.Cached(0), 0);
  for (int i = 0; i < 400; ++i) estimate.LearnCached(1'000, 0);
  EXPECT_EQ(estimate.Cached(1000), 0);
}

TEST(TokenEstimate, NeverExpectsMoreThanThePromptToBeCached) {
  TokenEstimate estimate;
  estimate.LearnCached(0, 100);
  estimate.LearnCached(-1, 5);
  EXPECT_EQ(estimate.Cached(1000), 0);
  for (int i = 0; i < 100; ++i) estimate.LearnCached(100, std::numeric_limits<int64_t>::max());
  EXPECT_EQ(estimate.Cached(1000), 1000);
  EXPECT_GT(estimate.Cached(std::numeric_limits<int64_t>::max()), 0);
  for (int i = 0; i < 100; ++i) estimate.LearnCached(100, -7);
  EXPECT_GE(estimate.Cached(1000), 0);
}

TEST(TokenEstimate, BoundsTheEffectOfAbsurdReports) {
  TokenEstimate estimate;
  for (int i = 0; i < 1000; ++i) {
    estimate.LearnPrompt(100, std::numeric_limits<int64_t>::max());
    estimate.LearnPrompt(3, 500);
    estimate.LearnPrompt(0, 1);
    estimate.LearnOutput(std::numeric_limits<int64_t>::max(), 1);
    estimate.LearnOutput(-5, 1);
  }
  EXPECT_LE(estimate.tokens_per_byte(), 2);
  EXPECT_LE(estimate.tokens_per_text_byte(), 1);
  EXPECT_LE(estimate.ExpectedOutput(std::nullopt), 131'072);
  EXPECT_GT(estimate.Prompt(std::numeric_limits<uint64_t>::max()), 0);
}

TEST(TokenEstimate, LearnsFromAllShardsAtOnce) {
  TokenEstimate estimate;
  std::vector<std::thread> shards;
  for (int i = 0; i < 4; ++i) {
    shards.emplace_back([&] {
      for (int n = 0; n < 2'000; ++n) estimate.LearnPrompt(1000, 400);
    });
  }
  for (std::thread& shard : shards) shard.join();
  EXPECT_NEAR(estimate.tokens_per_byte(), 0.4, 0.001);
}

}  // namespace
}  // namespace router
