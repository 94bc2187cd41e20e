#include "scheduler/autoscale/headroom.h"

#include <gtest/gtest.h>

#include <limits>

#include "scheduler/autoscale/autoscaler.h"

namespace scheduler::autoscale {
namespace {

using std::chrono::seconds;

constexpr conf::Duration kTtft = seconds(2);

// 50 first tokens a second.
class DrivenHeadroom {
 public:
  explicit DrivenHeadroom(double attainment = 0.99) : headroom_(attainment, kTtft) {}

  double Feed(const FirstTokens& tokens, int ticks, bool starting = false) {
    for (int tick = 0; tick < ticks; ++tick) headroom_.Learn(tokens, starting, now_ += seconds(1));
    return headroom_.part();
  }
  double late() const { return headroom_.late(); }

 private:
  Headroom headroom_;
  conf::TimePoint now_{seconds(1'000'000)};
};

TEST(Headroom, IsNothingWhileFirstTokensAreInTime) {
  DrivenHeadroom headroom;
  EXPECT_EQ(headroom.Feed({.came = 50}, 3600), 0);
  // Half of what may be late.
  EXPECT_EQ(headroom.Feed({.came = 50, .late = 0.25}, 3600), 0);
  EXPECT_NEAR(headroom.late(), 0.005, 1e-4);
}

TEST(Headroom, GrowsWhileMoreIsLateThanMayBeAndShrinksAfterwards) {
  DrivenHeadroom headroom;
  const double soon = headroom.Feed({.came = 50, .late = 1}, 300);
  EXPECT_GT(soon, 0.02);
  const double later = headroom.Feed({.came = 50, .late = 1}, 300);
  EXPECT_GT(later, soon + 0.02);
  EXPECT_NEAR(headroom.late(), 0.02, 1e-9);
  EXPECT_EQ(headroom.Feed({.came = 50}, 3600), 0);
}

TEST(Headroom, HasABound) {
  DrivenHeadroom headroom;
  EXPECT_DOUBLE_EQ(headroom.Feed({.came = 50, .late = 50}, 7200), Headroom::kMost);
}

TEST(Headroom, AllowedLatenessFollowsTheAttainment) {
  const FirstTokens tokens{.came = 50, .late = 0.3};
  EXPECT_EQ(DrivenHeadroom(0.99).Feed(tokens, 900), 0);
  EXPECT_GT(DrivenHeadroom(0.995).Feed(tokens, 900), 0.02);
  EXPECT_GT(DrivenHeadroom(0.999).Feed(tokens, 900), 0.1);
  EXPECT_EQ(DrivenHeadroom(0.5).Feed(tokens, 900), 0);
}

TEST(Headroom, AmongFewFirstTokensOnlyWhatIsNoChanceIsEvidence) {
  // In 15 minutes 360, of which four may be late: five are by chance, 14 are not.
  EXPECT_EQ(DrivenHeadroom().Feed({.came = 0.4, .late = 0.0056}, 7200), 0);
  EXPECT_GT(DrivenHeadroom().Feed({.came = 0.4, .late = 0.016}, 7200), 0.1);
  // One of ten is nothing, all of them are something.
  EXPECT_EQ(DrivenHeadroom().Feed({.came = 0.011, .late = 0.0011}, 7200), 0);
  EXPECT_GT(DrivenHeadroom().Feed({.came = 0.011, .late = 0.011}, 7200), 0.1);
}

TEST(Headroom, GoesWhenNothingIsHeardAnyMore) {
  DrivenHeadroom headroom;
  EXPECT_GT(headroom.Feed({.came = 50, .late = 5}, 600), 0.1);
  EXPECT_EQ(headroom.Feed({}, 4 * 3600), 0);
}

TEST(Headroom, IgnoresTokensThatAreLateDuringStarts) {
  DrivenHeadroom headroom;
  headroom.Feed({.came = 50}, 900);
  EXPECT_EQ(headroom.Feed({.came = 50, .late = 25}, 90, true), 0);
  // Those who waited for the replica have their first tokens when it is there.
  EXPECT_EQ(headroom.Feed({.came = 200, .late = 200}, 4), 0);
  EXPECT_EQ(headroom.late(), 0);
  EXPECT_GT(headroom.Feed({.came = 50, .late = 5}, 300), 0.01);
}

TEST(Headroom, IgnoresPromptsThatNoReplicaCouldServeInTime) {
  EXPECT_EQ(DrivenHeadroom().Feed({.came = 50, .hopeless = 25}, 3600), 0);
  // They use up what may be late, which others make good up to half of it.
  EXPECT_EQ(DrivenHeadroom().Feed({.came = 50, .late = 0.3}, 3600), 0);
  EXPECT_GT(DrivenHeadroom().Feed({.came = 50, .late = 0.3, .hopeless = 0.2}, 900), 0.01);
  EXPECT_EQ(DrivenHeadroom().Feed({.came = 50, .late = 0.15, .hopeless = 0.45}, 3600), 0);
}

TEST(Headroom, StaysZeroForAnUnreachableAttainment) {
  EXPECT_EQ(DrivenHeadroom().Feed({.came = 50, .late = 5, .hopeless = 0.6}, 3600), 0);
  EXPECT_GT(DrivenHeadroom().Feed({.came = 50, .late = 5, .hopeless = 0.4}, 900), 0.1);
}

TEST(Headroom, DoesNotDependOnHowOftenItIsRead) {
  Headroom often(0.99, kTtft);
  DrivenHeadroom now_and_then;
  conf::TimePoint now{seconds(1'000'000)};
  for (int tick = 0; tick < 6000; ++tick)
    often.Learn({.came = 5, .late = 0.1}, false, now += std::chrono::milliseconds(100));
  EXPECT_NEAR(often.part(), now_and_then.Feed({.came = 50, .late = 1}, 600), 0.002);
}

TEST(Headroom, TreatsNanAsNoHeadroom) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  DrivenHeadroom headroom;
  EXPECT_EQ(headroom.Feed({.came = nan, .late = nan, .hopeless = -3}, 600), 0);
  EXPECT_EQ(headroom.late(), 0);
}

TEST(Headroom, IsPartOfTheDemandAndSaidInItsReason) {
  ScalingPolicy policy;
  policy.max = 20;
  policy.ttft = kTtft;
  policy.demand.margin = 0;
  Autoscaler autoscaler(policy);
  std::vector<ReplicaView> replicas;
  for (uint32_t id = 1; id <= 10; ++id) replicas.push_back({.id = id});
  conf::TimePoint now{seconds(1'000'000)};
  Signals signals{.demand = {.work = 8.9, .first_tokens = {.came = 50}}, .in_flight = 100};
  Decision decision;
  const auto hear = [&](int ticks) {
    for (int tick = 0; tick < ticks; ++tick)
      decision = autoscaler.Tick(signals, replicas, seconds(90), now += seconds(1));
  };
  hear(900);
  EXPECT_EQ(decision.why, "demand");
  EXPECT_EQ(decision.headroom, 0);
  EXPECT_EQ(decision.wanted, 10u);
  signals.demand.first_tokens.late = 1;
  hear(900);
  EXPECT_EQ(decision.why, "demand, and first tokens came late");
  EXPECT_GT(decision.headroom, 0.04);
  EXPECT_GT(decision.late, 0.01);
  EXPECT_GT(decision.wanted, 10u);
  EXPECT_NEAR(decision.demand, 8.9 * (1 + decision.headroom), 1e-6);
}

}  // namespace
}  // namespace scheduler::autoscale
