#include "scheduler/autoscale/kpa.h"

#include <gtest/gtest.h>

#include <limits>

namespace scheduler::autoscale {
namespace {

using std::chrono::seconds;

constexpr conf::TimePoint kNow{seconds(1'000'000)};

// By the published rule: wanted = ceil(mean / target) in [floor(ready / 2), ceil(1000 * ready)], the panic
// window's once it asks for twice of what is ready.
struct Golden {
  double stable, panic;
  uint32_t ready, wanted;
  bool panics;
};

class KpaGolden : public testing::TestWithParam<Golden> {};

TEST_P(KpaGolden, GivesThePublishedNumber) {
  const Golden& g = GetParam();
  Kpa kpa({.target = 10});
  EXPECT_EQ(kpa.Decide(g.stable, g.panic, g.ready, kNow), g.wanted);
  EXPECT_EQ(kpa.panics(), g.panics);
}

INSTANTIATE_TEST_SUITE_P(Rule, KpaGolden,
                         testing::Values(Golden{100, 100, 10, 10, false},  // as it is
                                         Golden{101, 100, 10, 11, false},  // rounded up
                                         Golden{100, 190, 10, 10, false},  // 20 / 10 is the threshold:
                                         Golden{100, 191, 10, 20, true},   // ceil(19.1) reaches it
                                         Golden{100, 205, 10, 21, true},
                                         Golden{300, 205, 10, 30, true},  // the larger of the two
                                         Golden{10, 10, 10, 5, false},    // at most by half
                                         Golden{0, 0, 1, 0, false},       // to zero from one
                                         Golden{0, 0, 2, 1, false},
                                         Golden{5, 5, 0, 1, false},   // nobody is ready: counted as one
                                         Golden{15, 15, 0, 2, true},  // 2 / 1
                                         Golden{1e7, 1e7, 1, 1000, true}));

TEST(Kpa, NeverGoesDownInAPanicAndLeavesItAfterAStableWindow) {
  Kpa kpa({.target = 10});
  EXPECT_EQ(kpa.Decide(100, 400, 10, kNow), 40u);
  EXPECT_EQ(kpa.Decide(100, 100, 20, kNow + seconds(30)), 40u);
  EXPECT_EQ(kpa.Decide(100, 100, 40, kNow + seconds(60)), 40u);
  EXPECT_TRUE(kpa.panics());
  EXPECT_EQ(kpa.Decide(100, 100, 40, kNow + seconds(61)), 20u);  // by half at most
  EXPECT_FALSE(kpa.panics());
}

TEST(Kpa, AveragesOverItsWindows) {
  Kpa kpa({.target = 10});
  uint32_t wanted = 0;
  for (int s = 0; s < 60; ++s) wanted = kpa.Decide(40, 4, kNow + seconds(s));
  EXPECT_EQ(wanted, 4u);
  // Six seconds of 79 are below twice of what is ready, and move the minute's mean by 3.9.
  for (int s = 60; s < 66; ++s) wanted = kpa.Decide(79, 5, kNow + seconds(s));
  EXPECT_EQ(wanted, 5u);
  EXPECT_FALSE(kpa.panics());
  for (int s = 66; s < 72; ++s) wanted = kpa.Decide(101, 5, kNow + seconds(s));
  EXPECT_EQ(wanted, 11u);
  EXPECT_TRUE(kpa.panics());
}

TEST(Kpa, TreatsNanAsNoTraffic) {
  Kpa kpa({.target = 10});
  for (int s = 0; s < 60; ++s) {
    EXPECT_EQ(kpa.Decide(std::numeric_limits<double>::quiet_NaN(), 1, kNow + seconds(s)), 0u);
  }
}

}  // namespace
}  // namespace scheduler::autoscale
