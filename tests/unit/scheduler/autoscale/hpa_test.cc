#include "scheduler/autoscale/hpa.h"

#include <gtest/gtest.h>

#include <limits>

namespace scheduler::autoscale {
namespace {

using std::chrono::seconds;

constexpr conf::TimePoint kNow{seconds(1'000'000)};

// ceil(current * metric / target), unless the ratio is within a tenth of one.
struct Golden {
  double in_flight;
  uint32_t replicas, wanted;
};

class HpaGolden : public testing::TestWithParam<Golden> {};

TEST_P(HpaGolden, GivesThePublishedNumber) {
  const Golden& g = GetParam();
  EXPECT_EQ(Hpa({.target = 10}).Decide(g.in_flight, g.replicas, kNow), g.wanted);
}

INSTANTIATE_TEST_SUITE_P(
    Rule, HpaGolden,
    testing::Values(Golden{40, 4, 4}, Golden{43.9, 4, 4}, Golden{36, 4, 4}, Golden{44.1, 4, 5},
                    Golden{80, 4, 8}, Golden{81, 4, 9}, Golden{35, 4, 4}, Golden{30, 4, 3}, Golden{0, 4, 0},
                    Golden{5, 0, 1}, Golden{0, 0, 0}, Golden{std::numeric_limits<double>::quiet_NaN(), 2, 0},
                    Golden{std::numeric_limits<double>::infinity(), 2, 0}, Golden{-3, 2, 0}));

TEST(Hpa, LooksOnceASyncPeriod) {
  Hpa hpa({.target = 10});
  EXPECT_EQ(hpa.Decide(40, 4, kNow), 4u);
  EXPECT_EQ(hpa.Decide(400, 4, kNow + seconds(14)), 4u);
  EXPECT_EQ(hpa.Decide(400, 4, kNow + seconds(15)), 40u);
}

}  // namespace
}  // namespace scheduler::autoscale
