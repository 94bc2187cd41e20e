#include "scheduler/autoscale/autoscaler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace scheduler::autoscale {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;
using testing::ElementsAre;
using testing::IsEmpty;

constexpr conf::TimePoint kBegin{seconds(1'000'000)};
constexpr conf::Duration kColdStart = seconds(90);

ScalingPolicy Demand(uint32_t min, uint32_t max) {
  return {.model = "m", .min = min, .max = max, .demand = {.margin = 0}};
}

ReplicaView Ready(uint32_t id, uint32_t in_flight = 1) {
  return {.id = id, .phase = ReplicaPhase::kReady, .since = kBegin, .in_flight = in_flight};
}
ReplicaView In(ReplicaPhase phase, uint32_t id, conf::TimePoint since, uint32_t in_flight = 0) {
  return {.id = id, .phase = phase, .since = since, .in_flight = in_flight};
}

Signals Working(double replicas) {
  return {.demand = {.work = replicas}, .in_flight = 10 * replicas};
}

// The decision at `now` of a scaler for which it has been so for a minute.
Decision Settled(Autoscaler& scaler, const Signals& signals, std::span<const ReplicaView> replicas,
                 conf::Duration cold_start = kColdStart, conf::TimePoint now = kBegin) {
  for (int before = 60; before > 0; --before)
    scaler.Tick(signals, replicas, cold_start, now - seconds(before));
  return scaler.Tick(signals, replicas, cold_start, now);
}
Decision Settled(const ScalingPolicy& policy, const Signals& signals,
                 std::span<const ReplicaView> replicas = {}) {
  Autoscaler scaler(policy);
  return Settled(scaler, signals, replicas);
}

TEST(Autoscaler, CountsStartingReplicas) {
  Autoscaler scaler(Demand(0, 20));
  const std::vector<ReplicaView> replicas = {Ready(1), In(ReplicaPhase::kPending, 2, kBegin),
                                             In(ReplicaPhase::kPending, 3, kBegin)};
  const Decision decision = Settled(scaler, Working(2.5), replicas);
  EXPECT_EQ(decision.wanted, 3u);
  EXPECT_EQ(decision.start, 0u);
}

TEST(Autoscaler, RecentLoadIsTheWorkOfAboutTheLastMinuteWhateverTheLaw) {
  ScalingPolicy policy = Demand(0, 1);
  policy.law = Law::kKpa;
  Autoscaler scaler(policy);
  Settled(scaler, Working(0.5), {});
  EXPECT_NEAR(scaler.recent_load(), 0.5 * (1 - std::exp(-1.0)), 1e-6);
  scaler.Tick({.demand = {.work = std::numeric_limits<double>::quiet_NaN()}}, {}, kColdStart,
              kBegin + minutes(1));
  EXPECT_NEAR(scaler.recent_load(), 0.5 * (1 - std::exp(-1.0)) * std::exp(-1.0), 1e-6);
}

TEST(Autoscaler, ReusesDrainingReplicasBeforeItStartsOthers) {
  const std::vector<ReplicaView> replicas = {Ready(1), In(ReplicaPhase::kDraining, 2, kBegin, 3),
                                             In(ReplicaPhase::kDraining, 3, kBegin, 9)};
  const Decision one = Settled(Demand(0, 20), Working(1.7), replicas);
  EXPECT_THAT(one.take_back, ElementsAre(3));
  EXPECT_EQ(one.start, 0u);
  const Decision more = Settled(Demand(0, 20), Working(3.5), replicas);
  EXPECT_THAT(more.take_back, ElementsAre(3, 2));
  EXPECT_EQ(more.start, 1u);
}

TEST(Autoscaler, ScalesDownUnplacedThenStartingThenIdlestReplicas) {
  ScalingPolicy policy = Demand(0, 20);
  policy.law = Law::kSchedule;
  policy.min = policy.max = 2;
  const std::vector<ReplicaView> replicas = {Ready(1, 7), Ready(2, 0), Ready(3, 4),
                                             In(ReplicaPhase::kPending, 4, kBegin),
                                             In(ReplicaPhase::kUnplaced, 5, kBegin)};
  const Decision decision = Autoscaler(policy).Tick(Working(2), replicas, kColdStart, kBegin);
  EXPECT_THAT(decision.cancel, ElementsAre(5, 4));
  EXPECT_THAT(decision.drain, ElementsAre(2));
}

TEST(Autoscaler, CountFollowsDemandWhileAReplicaCannotBePlaced) {
  Autoscaler scaler(Demand(1, 20));
  std::vector<ReplicaView> replicas = {Ready(1), Ready(2), In(ReplicaPhase::kUnplaced, 3, kBegin)};
  conf::TimePoint now = kBegin;
  EXPECT_EQ(scaler.Tick(Working(2.5), replicas, kColdStart, now).start, 0u);
  Decision decision;
  for (int s = 0; s < 10; ++s) decision = scaler.Tick(Working(40), replicas, kColdStart, now += seconds(1));
  EXPECT_EQ(decision.wanted, 20u);
  for (int s = 0; s < 3600; ++s)
    decision = scaler.Tick(Working(0.2), replicas, kColdStart, now += seconds(1));
  EXPECT_EQ(decision.wanted, 1u);
  EXPECT_THAT(decision.cancel, ElementsAre(3));
}

TEST(Autoscaler, ReplacesAStartThatTakesTwiceTheUsualTime) {
  Autoscaler scaler(Demand(0, 20));
  const std::vector<ReplicaView> replicas = {Ready(1), In(ReplicaPhase::kPending, 2, kBegin)};
  const Decision waits = Settled(scaler, Working(1.5), replicas, kColdStart, kBegin + seconds(180));
  EXPECT_THAT(waits.failed, IsEmpty());
  EXPECT_EQ(waits.start, 0u);
  const Decision again = scaler.Tick(Working(1.5), replicas, kColdStart, kBegin + seconds(181));
  EXPECT_THAT(again.failed, ElementsAre(2));
  EXPECT_EQ(again.start, 1u);
  Autoscaler other(Demand(0, 20));
  const Decision unknown = Settled(other, Working(1.5), replicas, {}, kBegin + minutes(60));
  EXPECT_THAT(unknown.failed, IsEmpty());
}

TEST(Autoscaler, GoesToZeroOnlyAfterIdling) {
  for (const auto& [idle, why] : {std::pair(minutes(5), "demand"),  // the law keeps as much for as long
                                  std::pair(minutes(10), "not idle for long enough")}) {
    ScalingPolicy policy = Demand(0, 5);
    policy.scale_to_zero_after = idle;
    Autoscaler scaler(policy);
    const std::vector<ReplicaView> one = {Ready(1, 0)};
    conf::TimePoint now = kBegin;
    for (int s = 0; s < 100; ++s) scaler.Tick(Working(0.5), one, kColdStart, now += seconds(1));
    Decision decision;
    for (int s = 1; s < seconds(idle).count(); ++s)
      decision = scaler.Tick({}, one, kColdStart, now += seconds(1));
    EXPECT_EQ(decision.wanted, 1u);
    EXPECT_EQ(decision.why, why);
    decision = scaler.Tick({}, one, kColdStart, now += seconds(1));
    EXPECT_EQ(decision.wanted, 0u);
    EXPECT_THAT(decision.drain, ElementsAre(1));
  }
}

TEST(Autoscaler, KeepsStandbyDuringTrafficAndUntilItHasIdled) {
  ScalingPolicy policy = Demand(0, 5);
  policy.scale_to_zero_after = minutes(5);
  policy.standby = 2;
  Autoscaler scaler(policy);
  const Decision none = scaler.Tick({}, {}, kColdStart, kBegin);
  EXPECT_EQ(none.wanted, 0u) << "nobody has asked";
  const Decision first = scaler.Tick(Working(0.1), {}, kColdStart, kBegin + seconds(1));
  EXPECT_EQ(first.start, 2u);
  EXPECT_EQ(first.why, "idle.standby");
  const std::vector<ReplicaView> two = {Ready(1, 0), Ready(2, 0)};
  conf::TimePoint now = kBegin + seconds(1);
  for (int s = 0; s < 299; ++s)
    EXPECT_EQ(scaler.Tick({}, two, kColdStart, now += seconds(1)).wanted, 2u) << s;
  EXPECT_EQ(scaler.Tick({}, two, kColdStart, now += seconds(1)).wanted, 0u);
}

TEST(Autoscaler, OneHeldRequestStartsAReplicaUnderEveryLaw) {
  for (const Law law : {Law::kDemand, Law::kKpa, Law::kHpa, Law::kSchedule}) {
    ScalingPolicy policy = Demand(0, 5);
    policy.law = law;
    policy.kpa.target = policy.hpa.target = 10;
    policy.behavior = Behavior{.scale_up = {.policies = {{RateUnit::kPercent, 100, seconds(60)}}}};
    const Signals held{.demand = {.work = 0, .backlog = 0.1, .oldest = {}}, .in_flight = 1, .held = 1};
    EXPECT_EQ(Autoscaler(policy).Tick(held, {}, kColdStart, kBegin).start, 1u) << static_cast<int>(law);
    EXPECT_EQ(Autoscaler(policy).Tick({}, {}, kColdStart, kBegin).start, 0u) << static_cast<int>(law);
  }
}

TEST(Autoscaler, TreatsNanAsNoTraffic) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const Law law : {Law::kDemand, Law::kKpa, Law::kHpa}) {
    ScalingPolicy policy = Demand(0, 5);
    policy.law = law;
    policy.kpa.target = policy.hpa.target = 10;
    policy.scale_to_zero_after = seconds(10);
    Autoscaler scaler(policy);
    const Signals signals{.demand = {.work = nan, .backlog = nan}, .in_flight = nan, .held = nan};
    Decision decision;
    for (int s = 0; s < 1000; ++s) {
      decision = scaler.Tick(signals, std::vector<ReplicaView>{Ready(1, 0)}, kColdStart, kBegin + seconds(s));
    }
    EXPECT_EQ(decision.wanted, 0u) << static_cast<int>(law);
  }
}

TEST(Autoscaler, KeepsToMinMaxAndTheScheduledFloor) {
  ScalingPolicy policy = Demand(2, 6);
  policy.schedule = {{.min = 4}};  // fires every minute
  EXPECT_EQ(Autoscaler(policy).Tick({}, {}, kColdStart, kBegin).wanted, 4u);
  policy.schedule.clear();
  const Decision least = Autoscaler(policy).Tick({}, {}, kColdStart, kBegin);
  EXPECT_EQ(least.wanted, 2u);
  EXPECT_EQ(least.why, "replicas.min");
  const Decision most = Settled(policy, Working(50));
  EXPECT_EQ(most.wanted, 6u);
  EXPECT_EQ(most.why, "replicas.max");
}

TEST(Autoscaler, AHeldNumberIsKeptWhileTheLawGoesOnToLearn) {
  Autoscaler scaler(Demand(0, 20));
  const std::vector<ReplicaView> replicas = {Ready(1), Ready(2)};
  scaler.Hold(2);
  EXPECT_EQ(Settled(scaler, Working(8), replicas).wanted, 2u);
  EXPECT_GT(scaler.memory()->load_seconds, 0);
  scaler.Hold(std::nullopt);
  EXPECT_GT(scaler.Tick(Working(8), replicas, kColdStart, kBegin + seconds(1)).wanted, 8u)
      << "what was learned meanwhile counts at once";
}

TEST(Autoscaler, BehaviorLimitsTheRateOfChange) {
  ScalingPolicy policy = Demand(0, 50);
  policy.behavior = Behavior{.scale_up = {.policies = {{RateUnit::kReplicas, 2, seconds(60)}}}};
  Autoscaler scaler(policy);
  const std::vector<ReplicaView> one = {Ready(1)};
  scaler.Tick(Working(20), one, kColdStart, kBegin);
  const Decision decision = scaler.Tick(Working(20), one, kColdStart, kBegin + seconds(10));
  EXPECT_EQ(decision.wanted, 3u);
  EXPECT_EQ(decision.why, "behavior");
}

TEST(Autoscaler, HpaHasKubernetesOwnBehaviorWhenNoneIsGiven) {
  ScalingPolicy policy = Demand(0, 50);
  policy.law = Law::kHpa;
  policy.hpa.target = 10;
  const std::vector<ReplicaView> two = {Ready(1), Ready(2)};
  EXPECT_EQ(Autoscaler(policy).Tick({.in_flight = 400}, two, kColdStart, kBegin).wanted, 6u);
}

}  // namespace
}  // namespace scheduler::autoscale
