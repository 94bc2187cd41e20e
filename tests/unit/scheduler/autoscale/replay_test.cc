#include "scheduler/autoscale/replay.h"

#include <gtest/gtest.h>

namespace scheduler::autoscale {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;

constexpr conf::TimePoint kBegin{std::chrono::hours(1'000)};

// `steps` of two seconds with so much work each.
std::vector<Observed> Steady(size_t steps, double work, double ready) {
  std::vector<Observed> out;
  for (size_t i = 0; i < steps; ++i) {
    const conf::TimePoint at = out.empty() ? kBegin + seconds(2) : out.back().at + seconds(2);
    out.push_back({.at = at,
                   .seconds = 2,
                   .work = work,
                   .arrivals = work * 2,
                   .in_flight = work * 4,
                   .occupied = work,
                   .ready = ready,
                   .there = ready});
  }
  return out;
}
void Append(std::vector<Observed>& to, const std::vector<Observed>& more) {
  const conf::Duration by = to.back().at - kBegin;
  for (Observed step : more) {
    step.at += by;
    to.push_back(step);
  }
}

ScalingPolicy Demand(uint32_t min, uint32_t max) {
  ScalingPolicy policy;
  policy.min = min;
  policy.max = max;
  policy.ttft = seconds(2);
  policy.hold = minutes(10);
  return policy;
}

TEST(Replay, AnEmptyHourNeedsNothing) {
  const Replayed run = Replay(Demand(0, 4), {}, seconds(30));
  EXPECT_TRUE(run.steps.empty());
  EXPECT_EQ(run.replica_seconds, 0);
}

TEST(Replay, KeepsSufficientReplicasAndCountsTheirSeconds) {
  const Replayed run = Replay(Demand(1, 4), Steady(300, 0.5, 1), seconds(30));
  ASSERT_EQ(run.steps.size(), 300u);
  EXPECT_EQ(run.steps.back().at, kBegin + seconds(600));
  EXPECT_NEAR(run.replica_seconds, 600, 1);
  EXPECT_NEAR(run.work, 300, 1);
  EXPECT_EQ(run.starts + run.stops, 0u);
  EXPECT_EQ(run.late + run.refused, 0);
}

TEST(Replay, AColdStartIsAWaitOfItsLength) {
  const auto wait = [](int cold) {
    const Replayed run = Replay(Demand(0, 4), Steady(300, 0.5, 0), seconds(cold));
    EXPECT_GE(run.starts, 1u);
    EXPECT_GT(run.late, 0);
    EXPECT_EQ(run.refused, 0);
    return conf::ToSeconds(run.longest_wait);
  };
  EXPECT_NEAR(wait(10), 10, 3);
  EXPECT_NEAR(wait(60), 60, 3);
}

TEST(Replay, WorkThatWaitsTooLongIsRefused) {
  ScalingPolicy policy = Demand(0, 4);
  policy.hold = seconds(20);
  const Replayed run = Replay(policy, Steady(300, 0.5, 0), seconds(60));
  // Of the first minute's work all but the last 20 seconds'.
  EXPECT_NEAR(run.refused, 20, 3);
  EXPECT_NEAR(run.work, 300, 1);
}

TEST(Replay, TooFewReplicasLeaveWorkUnserved) {
  const Replayed run = Replay(Demand(1, 1), Steady(300, 2, 1), seconds(10));
  EXPECT_EQ(run.most, 1u);
  EXPECT_GT(run.late, 0.4 * run.work);
  EXPECT_GT(run.steps.back().waiting, 100);
  const Replayed enough = Replay(Demand(1, 4), Steady(300, 2, 1), seconds(10));
  EXPECT_EQ(enough.most >= 3, true);
  EXPECT_LT(enough.late, 0.2 * enough.work);
}

TEST(Replay, APatientPolicyCostsMoreThanAHastyOne) {
  std::vector<Observed> day = Steady(60, 0.1, 1);
  for (int i = 0; i < 6; ++i) {
    Append(day, Steady(30, 2.5, 3));
    Append(day, Steady(90, 0.1, 1));
  }
  ScalingPolicy patient = Demand(1, 8);
  patient.demand.hold = minutes(30);
  ScalingPolicy hasty = Demand(1, 8);
  hasty.demand.hold = seconds(10);
  hasty.demand.window = seconds(10);
  const Replayed slow = Replay(patient, day, seconds(5));
  const Replayed quick = Replay(hasty, day, seconds(5));
  EXPECT_GT(slow.replica_seconds, 1.3 * quick.replica_seconds);
  EXPECT_LT(slow.stops, quick.stops);
  EXPECT_LE(slow.late, quick.late);
}

TEST(Replay, KpaAndHpaFollowRequestsInFlight) {
  ScalingPolicy kpa = Demand(0, 10);
  kpa.law = Law::kKpa;
  kpa.kpa.target = 2;
  // Four requests in flight for each second of work a second: 1.5 of them keep six there.
  const Replayed run = Replay(kpa, Steady(300, 1.5, 3), seconds(5));
  EXPECT_EQ(run.steps.back().ready, 3u);
  EXPECT_LT(run.late, 0.05 * run.work);
}

TEST(Replay, IsTheSameEachTime) {
  std::vector<Observed> traffic = Steady(60, 0.1, 1);
  Append(traffic, Steady(60, 3.3, 2));
  const Replayed first = Replay(Demand(0, 6), traffic, seconds(7));
  const Replayed again = Replay(Demand(0, 6), traffic, seconds(7));
  EXPECT_EQ(first.replica_seconds, again.replica_seconds);
  EXPECT_EQ(first.late, again.late);
  EXPECT_EQ(first.starts, again.starts);
}

}  // namespace
}  // namespace scheduler::autoscale
