#include "scheduler/autoscale/headroom.h"

#include <gtest/gtest.h>

#include <limits>

#include "scheduler/autoscale/autoscaler.h"

namespace scheduler::autoscale {
namespace {

using std::chrono::seconds;

constexpr conf::Duration kTtft = seconds(2);

// 50 first tokens a second.
class Heard {
 public:
  explicit Heard(double attainment = 0.99) : headroom_(attainment, kTtft) {}

  double Hear(const FirstTokens& tokens, int ticks, bool starting = false) {
    for (int tick = 0; tick < ticks; ++tick) headroom_.Learn(tokens, starting, now_ += seconds(1));
    return headroom_.part();
  }
  double late() const { return headroom_.late(); }

 private:
  Headroom headroom_;
  conf::TimePoint now_{seconds(1'000'000)};
};

TEST(Headroom, IsNothingWhileFirstTokensAreInTime) {
  Heard heard;
  EXPECT_EQ(heard.Hear({.came = 50}, 3600), 0);
  // Half of what may be late.
  EXPECT_EQ(heard.Hear({.came = 50, .late = 0.25}, 3600), 0);
  EXPECT_NEAR(heard.late(), 0.005, 1e-4);
}

TEST(Headroom, GrowsWhileMoreIsLateThanMayBeAndShrinksAfterwards) {
  Heard heard;
  const double soon = heard.Hear({.came = 50, .late = 1}, 300);
  EXPECT_GT(soon, 0.02);
  const double later = heard.Hear({.came = 50, .late = 1}, 300);
  EXPECT_GT(later, soon + 0.02);
  EXPECT_NEAR(heard.late(), 0.02, 1e-9);
  EXPECT_EQ(heard.Hear({.came = 50}, 3600), 0);
}

TEST(Headroom, HasABound) {
  Heard heard;
  EXPECT_DOUBLE_EQ(heard.Hear({.came = 50, .late = 50}, 7200), Headroom::kMost);
}

TEST(Headroom, AllowedLatenessFollowsTheAttainment) {
  const FirstTokens tokens{.came = 50, .late = 0.3};
  EXPECT_EQ(Heard(0.99).Hear(tokens, 900), 0);
  EXPECT_GT(Heard(0.995).Hear(tokens, 900), 0.02);
  EXPECT_GT(Heard(0.999).Hear(tokens, 900), 0.1);
  EXPECT_EQ(Heard(0.5).Hear(tokens, 900), 0);
}

TEST(Headroom, FewFirstTokensTellNothing) {
  // In 15 minutes 360: four may be late.
  EXPECT_EQ(Heard().Hear({.came = 0.4, .late = 0.4}, 7200), 0);
  EXPECT_GT(Heard().Hear({.came = 0.8, .late = 0.4}, 7200), 0);
}

TEST(Headroom, GoesWhenNothingIsHeardAnyMore) {
  Heard heard;
  EXPECT_GT(heard.Hear({.came = 50, .late = 5}, 600), 0.1);
  EXPECT_EQ(heard.Hear({}, 4 * 3600), 0);
}

TEST(Headroom, WhatIsLateBecauseReplicasAreStartingIsNoReason) {
  Heard heard;
  heard.Hear({.came = 50}, 900);
  EXPECT_EQ(heard.Hear({.came = 50, .late = 25}, 90, true), 0);
  // Those who waited for the replica have their first tokens when it is there.
  EXPECT_EQ(heard.Hear({.came = 200, .late = 200}, 4), 0);
  EXPECT_EQ(heard.late(), 0);
  EXPECT_GT(heard.Hear({.came = 50, .late = 5}, 300), 0.01);
}

TEST(Headroom, PromptsThatNoReplicaCouldServeInTimeAreNoReason) {
  EXPECT_EQ(Heard().Hear({.came = 50, .hopeless = 25}, 3600), 0);
  // They use up what may be late, which others make good up to half of it.
  EXPECT_EQ(Heard().Hear({.came = 50, .late = 0.3}, 3600), 0);
  EXPECT_GT(Heard().Hear({.came = 50, .late = 0.3, .hopeless = 0.2}, 900), 0.01);
  EXPECT_EQ(Heard().Hear({.came = 50, .late = 0.15, .hopeless = 0.45}, 3600), 0);
}

TEST(Headroom, AnAttainmentThatIsOutOfReachIsNoReason) {
  EXPECT_EQ(Heard().Hear({.came = 50, .late = 5, .hopeless = 0.6}, 3600), 0);
  EXPECT_GT(Heard().Hear({.came = 50, .late = 5, .hopeless = 0.4}, 900), 0.1);
}

TEST(Headroom, DoesNotDependOnHowOftenItIsRead) {
  Headroom often(0.99, kTtft);
  Heard now_and_then;
  conf::TimePoint now{seconds(1'000'000)};
  for (int tick = 0; tick < 6000; ++tick)
    often.Learn({.came = 5, .late = 0.1}, false, now += std::chrono::milliseconds(100));
  EXPECT_NEAR(often.part(), now_and_then.Hear({.came = 50, .late = 1}, 600), 0.002);
}

TEST(Headroom, TreatsNanAsNoHeadroom) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  Heard heard;
  EXPECT_EQ(heard.Hear({.came = nan, .late = nan, .hopeless = -3}, 600), 0);
  EXPECT_EQ(heard.late(), 0);
}

TEST(Headroom, IsPartOfTheDemandAndSaidInItsReason) {
  ScalingPolicy policy;
  policy.max = 20;
  policy.ttft = kTtft;
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
