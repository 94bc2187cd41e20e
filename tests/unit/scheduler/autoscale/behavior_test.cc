#include "scheduler/autoscale/behavior.h"

#include <gtest/gtest.h>

namespace scheduler::autoscale {
namespace {

using std::chrono::seconds;

constexpr conf::TimePoint kNow{seconds(1'000'000)};

// What a policy with these rules allows at once, of `wanted` from `current`.
uint32_t Once(const Behavior& behavior, uint32_t current, uint32_t wanted) {
  return BehaviorLimits(behavior).Apply(current, wanted, kNow);
}

const std::vector<RateLimit> kPolicies = {{RateUnit::kPercent, 100, seconds(15)},
                                          {RateUnit::kReplicas, 4, seconds(15)}};

TEST(Behavior, WithoutRulesAllowsEverything) {
  EXPECT_EQ(Once({}, 1, 1000), 1000u);
  EXPECT_EQ(Once({}, 1000, 0), 0u);
}

TEST(Behavior, SelectsThePolicyThatAllowsMostOrLeast) {
  struct Case {
    Select select;
    uint32_t current, up;
  };
  for (const auto& [select, current, up] :
       {Case{Select::kMax, 2, 6}, Case{Select::kMax, 10, 20}, Case{Select::kMin, 2, 4},
        Case{Select::kMin, 10, 14}, Case{Select::kDisabled, 10, 10}}) {
    const Behavior behavior{.scale_up = {.policies = kPolicies, .select = select}};
    EXPECT_EQ(Once(behavior, current, 1000), up) << static_cast<int>(select) << ' ' << current;
  }
  const std::vector<RateLimit> down = {{RateUnit::kPercent, 50, seconds(15)},
                                       {RateUnit::kReplicas, 1, seconds(15)}};
  for (const auto& [select, current, left] : {Case{Select::kMax, 10, 5}, Case{Select::kMin, 10, 9},
                                              Case{Select::kMax, 3, 1}, Case{Select::kDisabled, 10, 10}}) {
    const Behavior behavior{.scale_down = {.policies = down, .select = select}};
    EXPECT_EQ(Once(behavior, current, 0), left) << static_cast<int>(select) << ' ' << current;
  }
}

TEST(Behavior, CountsChangesOfThePeriod) {
  BehaviorLimits limits({.scale_up = {.policies = {{RateUnit::kReplicas, 4, seconds(60)}}}});
  EXPECT_EQ(limits.Apply(2, 100, kNow), 6u);
  limits.Changed(2, 6, kNow);
  EXPECT_EQ(limits.Apply(6, 100, kNow + seconds(59)), 6u);
  EXPECT_EQ(limits.Apply(6, 100, kNow + seconds(60)), 10u);
}

TEST(Behavior, TheInitialCountEntersTheStabilizationWindow) {
  BehaviorLimits limits(HpaBehavior());
  EXPECT_EQ(limits.Apply(10, 3, kNow), 10u);
  EXPECT_EQ(limits.Apply(10, 3, kNow + seconds(299)), 10u);
  EXPECT_EQ(limits.Apply(10, 3, kNow + seconds(300)), 3u);
}

TEST(Behavior, GoesDownOnlyToTheMostOfTheStabilizationWindow) {
  BehaviorLimits limits(HpaBehavior());
  EXPECT_EQ(limits.Apply(10, 10, kNow), 10u);
  EXPECT_EQ(limits.Apply(10, 7, kNow + seconds(100)), 10u);
  EXPECT_EQ(limits.Apply(10, 3, kNow + seconds(299)), 10u);
  EXPECT_EQ(limits.Apply(10, 3, kNow + seconds(300)), 7u);
  EXPECT_EQ(limits.Apply(7, 3, kNow + seconds(400)), 3u);
}

TEST(Behavior, GoesUpOnlyToTheLeastOfTheStabilizationWindow) {
  BehaviorLimits limits({.scale_up = {.stabilization = seconds(60)}});
  EXPECT_EQ(limits.Apply(2, 2, kNow), 2u);
  EXPECT_EQ(limits.Apply(2, 8, kNow + seconds(30)), 2u);
  EXPECT_EQ(limits.Apply(2, 5, kNow + seconds(59)), 2u);
  EXPECT_EQ(limits.Apply(2, 8, kNow + seconds(60)), 5u);
}

}  // namespace
}  // namespace scheduler::autoscale
