#include "router/limits/price.h"

#include <gtest/gtest.h>

#include <limits>
#include <random>

namespace router::limits {
namespace {

constexpr Price kMini{.input = 150'000, .cached_input = 75'000, .output = 600'000};

TEST(Price, RoundsARequestUpOnce) {
  EXPECT_EQ(kMini.Cost({}), 0);
  EXPECT_EQ(kMini.Cost({.input = 1}), 1);
  EXPECT_EQ(kMini.Cost({.input = 1'000'000}), 150'000);
  EXPECT_EQ(kMini.Cost({.input = 1000, .output = 500}), 450);
  EXPECT_EQ(kMini.Cost({.input = 1001, .output = 500}), 451);
  EXPECT_EQ(kMini.Cost({.input = 1000, .cached_input = 1000}), 75);
}

TEST(Price, CountsUnitsOtherThanTokens) {
  const Price price{.input = 100,
                    .cached_input = 10,
                    .cache_write = 125,
                    .image = 40'000,
                    .audio_second = 100,
                    .characters = 15'000'000};
  EXPECT_EQ(price.Cost({.images = 3}), 120'000);
  EXPECT_EQ(price.Cost({.audio_ms = 90'500}), 9'050);
  EXPECT_EQ(price.Cost({.audio_ms = 1}), 1);
  EXPECT_EQ(price.Cost({.characters = 10}), 150);
  EXPECT_EQ(price.Cost({.input = 1'000'000, .cached_input = 500'000, .cache_written = 300'000}), 20 + 5 + 38)
      << "written tokens cost more, cached ones less";
  EXPECT_EQ(price.Cost({.images = -3, .audio_ms = -1, .characters = -1}), 0);
}

TEST(Price, SurvivesCountsThatNoEngineCanMean) {
  constexpr int64_t kHuge = std::numeric_limits<int64_t>::max();
  const Price dear{.input = kHuge, .cached_input = kHuge, .output = kHuge};
  EXPECT_EQ(dear.Cost({.input = kHuge, .cached_input = kHuge, .output = kHuge}), kMaxMicroUsd);
  EXPECT_EQ(kMini.Cost({.input = -5, .cached_input = 7, .output = -1}), 0);
  EXPECT_EQ(kMini.Cost({.input = 1000, .cached_input = 2000}), 75);
}

TEST(Price, BuysAsMuchOutputAsTheMoneyAllowsAndNoMore) {
  std::mt19937_64 random(3);
  for (int i = 0; i < 10000; ++i) {
    const Price price{.input = static_cast<int64_t>(random() % 2'000'000),
                      .cached_input = 0,
                      .output = static_cast<int64_t>(1 + random() % 60'000'000)};
    const auto money = static_cast<int64_t>(random() % 100'000);
    const auto input = static_cast<int64_t>(random() % 50'000);
    const int64_t output = price.OutputFor(money, input);
    if (price.Cost({.input = input}) > money) {
      ASSERT_EQ(output, 0);
      continue;
    }
    ASSERT_LE(price.Cost({.input = input, .output = output}), money);
    ASSERT_GT(price.Cost({.input = input, .output = output + 1}), money);
  }
  EXPECT_EQ(Price{.input = 5}.OutputFor(10, 5), kMaxTokens);
}

}  // namespace
}  // namespace router::limits
