#include "router/limits/sliding_window.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <utility>
#include <vector>

namespace router::limits {
namespace {

constexpr int64_t kNow = 1'795'000'000;

TEST(SlidingWindow, CountsTheLastSixtySeconds) {
  SlidingWindow w;
  w.Add(kNow, 5);
  w.Add(kNow + 30, 7);
  EXPECT_EQ(w.Total(kNow + 30), 12);
  EXPECT_EQ(w.Total(kNow + 60), 12);
  EXPECT_EQ(w.Total(kNow + 61), 7);
  EXPECT_EQ(w.Total(kNow + 90), 7);
  EXPECT_EQ(w.Total(kNow + 91), 0);
}

TEST(SlidingWindow, GivesBackToTheSecondThatWasCharged) {
  SlidingWindow w;
  w.Add(kNow, 100);
  w.Add(kNow + 40, 10);
  w.Add(kNow, -60);
  EXPECT_EQ(w.Total(kNow + 40), 50);
  EXPECT_EQ(w.Total(kNow + 61), 10);
}

TEST(SlidingWindow, IgnoresARefundOfAChargeThatHasLeft) {
  SlidingWindow w;
  w.Add(kNow, 100);
  w.Add(kNow + 61, 10);
  w.Add(kNow, -60);
  w.Add(kNow, 60);
  EXPECT_EQ(w.Total(kNow + 61), 10);
}

TEST(SlidingWindow, NeverGoesBackInTime) {
  SlidingWindow w;
  w.Add(kNow, 1);
  w.Add(kNow + 61, 2);
  EXPECT_EQ(w.Total(kNow), 2);
}

TEST(SlidingWindow, SaysWhenCapacityIsFreed) {
  SlidingWindow w;
  EXPECT_EQ(w.SecondWhenEmpty(), 0);
  w.Add(kNow, 5);
  w.Add(kNow + 10, 5);
  w.Add(kNow + 20, 5);
  EXPECT_EQ(w.SecondWhenFreed(1), kNow + 61);
  EXPECT_EQ(w.SecondWhenFreed(5), kNow + 61);
  EXPECT_EQ(w.SecondWhenFreed(6), kNow + 71);
  EXPECT_EQ(w.SecondWhenFreed(15), kNow + 81);
  EXPECT_EQ(w.SecondWhenFreed(99), kNow + 81);
  EXPECT_EQ(w.SecondWhenEmpty(), kNow + 81);
}

TEST(SlidingWindow, AgreesWithAListOfCharges) {
  std::mt19937_64 random(7);
  SlidingWindow w;
  std::vector<std::pair<int64_t, int64_t>> charges;
  int64_t now = kNow;
  for (int i = 0; i < 20000; ++i) {
    now += random() % 8 == 0 ? static_cast<int64_t>(random() % 90) : static_cast<int64_t>(random() % 2);
    const auto amount = static_cast<int64_t>(random() % 100);
    w.Add(now, amount);
    charges.emplace_back(now, amount);
    auto& [then, charged] = charges[charges.size() - 1 - random() % std::min<size_t>(charges.size(), 40)];
    const int64_t back = charged / 2;
    w.Add(then, -back);
    charged -= back;
    int64_t expected = 0;
    for (const auto& [second, a] : charges) expected += second > now - 61 ? a : 0;
    ASSERT_EQ(w.Total(now), expected) << "step " << i;
    if (charges.size() > 400) charges.erase(charges.begin(), charges.begin() + 200);
  }
}

}  // namespace
}  // namespace router::limits
