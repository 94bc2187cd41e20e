#include "scheduler/rng.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <vector>

namespace scheduler {
namespace {

TEST(Rng, GivesTheSameNumbersEverywhere) {
  // SplitMix64(0) and xoshiro256** as published, computed apart from this code.
  Rng rng(0);
  EXPECT_EQ(rng.Next(), 0x99ec5f36cb75f2b4U);
  EXPECT_EQ(rng.Next(), 0xbf6e1f784956452aU);
  EXPECT_EQ(rng.Next(), 0x1a5f849d4933e6e0U);
}

TEST(Rng, UniformCoversItsRangeEvenly) {
  Rng rng(7);
  for (uint64_t n : {1U, 2U, 3U, 10U, 1000U}) {
    std::vector<uint64_t> hits(n);
    const uint64_t rounds = 2000 * n;
    for (uint64_t i = 0; i < rounds; ++i) {
      const uint64_t value = rng.Uniform(n);
      ASSERT_LT(value, n);
      ++hits[value];
    }
    EXPECT_GT(*std::min_element(hits.begin(), hits.end()), 1700U) << n;
    EXPECT_LT(*std::max_element(hits.begin(), hits.end()), 2300U) << n;
  }
  EXPECT_EQ(rng.Uniform(0), 0U);
}

TEST(Rng, UniformHasNoModuloBias) {
  // With n = 3/4 of the range, reduction by modulo would give the lower third twice as often.
  Rng rng(11);
  const uint64_t n = uint64_t{3} << 62;
  uint64_t low = 0;
  for (int i = 0; i < 90'000; ++i) low += rng.Uniform(n) < n / 3 ? 1 : 0;
  EXPECT_NEAR(static_cast<double>(low), 30'000, 600);
}

TEST(Rng, DoubleLiesInTheUnitInterval) {
  Rng rng(3);
  double sum = 0;
  for (int i = 0; i < 100'000; ++i) {
    const double x = rng.Double();
    ASSERT_GE(x, 0);
    ASSERT_LT(x, 1);
    sum += x;
  }
  EXPECT_NEAR(sum / 100'000, 0.5, 0.005);
}

TEST(Rng, ForkLeavesAnIndependentSource) {
  Rng a(5);
  Rng b = a.Fork();
  int same = 0;
  for (int i = 0; i < 1000; ++i) same += a.Next() == b.Next() ? 1 : 0;
  EXPECT_EQ(same, 0);
}

TEST(Rng, ShuffleKeepsEveryElement) {
  std::vector<int> values(100);
  std::iota(values.begin(), values.end(), 0);
  std::vector<int> shuffled = values;
  Rng(9).Shuffle(shuffled);
  EXPECT_NE(shuffled, values);
  std::sort(shuffled.begin(), shuffled.end());
  EXPECT_EQ(shuffled, values);
}

}  // namespace
}  // namespace scheduler
