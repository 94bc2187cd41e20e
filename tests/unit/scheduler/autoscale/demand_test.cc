#include "scheduler/autoscale/demand.h"

#include <gtest/gtest.h>

#include <limits>

#include "scheduler/autoscale/capacity.h"

namespace scheduler::autoscale {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr conf::Duration kTtft = seconds(2);

// A law that has law of so much work, every second.
class DrivenLaw {
 public:
  explicit DrivenLaw(DemandSettings settings = {}, conf::Duration cold_start = seconds(90))
      : DrivenLaw(cold_start, Policy(settings)) {}
  DrivenLaw(conf::Duration cold_start, const ScalingPolicy& policy) : law_(policy), cold_start_(cold_start) {}

  static ScalingPolicy Policy(DemandSettings settings = {}) {
    ScalingPolicy policy;
    policy.ttft = kTtft;
    policy.demand = settings;
    return policy;
  }

  uint32_t Feed(double work, int ticks, uint32_t replicas, DemandSignals more = {}) {
    uint32_t wanted = 0;
    more.work = work;
    for (int tick = 0; tick < ticks; ++tick)
      wanted = law_.Decide(more, running, replicas, 0, cold_start_, now_ += seconds(1));
    return wanted;
  }
  double demand() const { return law_.demand(); }
  const Hindsight& hindsight() const { return law_.hindsight(); }

  double running = 0;  // requests at replicas

 private:
  DemandLaw law_;
  conf::Duration cold_start_;
  conf::TimePoint now_{seconds(1'000'000)};
};

TEST(Demand, AddsPrefillAndTheRequestsPartOfADecodingBatch) {
  const Capacity capacity{.prefill_token = 1e-4,
                          .step_base = 0.02,
                          .step_sequence = 1e-4,
                          .context_token = 1e-7,
                          .max_running = 100,
                          .kv_tokens = 100'000};
  // 900 of 1,000 prompt tokens, and 100 steps of which it takes a hundredth: 1,050 tokens of 100,000, half of
  // the answer's being there on the mean, are more.
  EXPECT_NEAR(WorkOf(capacity, 900, 1000, 100), 0.09 + 100 * (1e-4 + 1.05e-4 + 0.02 * 0.0105), 1e-12);
  EXPECT_NEAR(WorkOf(capacity, 0, 100, 100), 100 * (1e-4 + 1.5e-5 + 0.02 * 0.01), 1e-12);
  EXPECT_NEAR(WorkOf(capacity, 0, 1000, 100, 500), 100 * (1e-4 + 1.5e-4 + 0.02 * 0.015), 1e-12);
}

TEST(Demand, TheBatchGrowsWhileTokensMeetTheirTarget) {
  const Capacity capacity{
      .step_base = 0.02, .step_sequence = 1e-4, .context_token = 1e-7, .max_running = 256, .kv_tokens = 1e6};
  EXPECT_DOUBLE_EQ(MostInTime(capacity, 1000, milliseconds(200)), 256) << "as many as may run";
  EXPECT_NEAR(MostInTime(capacity, 1000, milliseconds(40)), 100, 1e-6);
  EXPECT_NEAR(MostInTime(capacity, 9000, milliseconds(40)), 20, 1e-6);
  EXPECT_DOUBLE_EQ(MostInTime(capacity, 1000, milliseconds(10)), 1) << "not even alone";
}

TEST(Demand, LongAnswersAmongShortOnesHoldMoreOfTheCache) {
  AnswerSizes alike(256);
  AnswerSizes mixed(256);
  for (int i = 0; i < 10'000; ++i) {
    alike.Add(200);
    mixed.Add(i % 10 == 0 ? 1100 : 100);
  }
  EXPECT_NEAR(alike.mean(), 200, 1e-6);
  EXPECT_NEAR(alike.written(), 100, 1e-6);
  EXPECT_NEAR(mixed.mean(), 200, 10);
  // Of ten tokens that are being written five and a half belong to the long one.
  EXPECT_NEAR(mixed.written(), (0.9 * 100 * 100 + 0.1 * 1100 * 1100) / (2 * 200), 15);
}

TEST(Demand, TheFirstAnswersCountAsTheyAre) {
  AnswerSizes sizes(256);
  EXPECT_EQ(sizes.mean(), 256);
  EXPECT_EQ(sizes.written(), 128);
  sizes.Add(0);
  EXPECT_EQ(sizes.mean(), 256);
  sizes.Add(10);
  sizes.Add(30);
  EXPECT_NEAR(sizes.mean(), 20, 1e-9);
}

// Without a margin, so that demand is the load.
DemandSettings Bare() {
  return {.margin = 0};
}

TEST(Demand, GoesUpAboveUpAtAndOnlyAsFarAsNeeded) {
  EXPECT_EQ(DrivenLaw(Bare()).Feed(3.5, 60, 4), 4u);
  EXPECT_EQ(DrivenLaw(Bare()).Feed(3.7, 60, 4), 5u);
  EXPECT_EQ(DrivenLaw(Bare()).Feed(9.0, 60, 4), 10u);
}

TEST(Demand, GoesDownOnlyIfOneLessIsStillBelowUpAt) {
  DrivenLaw few(Bare());
  EXPECT_EQ(few.Feed(0.95, 200, 2), 2u);  // below 0.80 of two, above 0.90 of one
  DrivenLaw enough(Bare());
  EXPECT_EQ(enough.Feed(0.85, 200, 2), 1u);
  DrivenLaw many(Bare());
  EXPECT_EQ(many.Feed(7.5, 200, 10), 9u);  // 7.5 is below 8, and above 0.80 of nine
}

TEST(Demand, ThePolicysMarginIsAFactorOfTheMargin) {
  DrivenLaw usual;
  usual.Feed(4, 60, 10);
  DrivenLaw twice({.margin = 2});
  twice.Feed(4, 60, 10);
  EXPECT_NEAR(twice.demand() - 4, 2 * (usual.demand() - 4), 1e-3);
  EXPECT_GT(usual.demand(), 4.1);
}

TEST(Demand, ThePolicysHoldIsTheShortestOne) {
  DrivenLaw law({.hold = seconds(1800), .margin = 0});
  law.Feed(8, 600, 10);
  law.Feed(1, 1700, 10);
  EXPECT_NEAR(law.demand(), 8, 0.1);
  EXPECT_GE(law.hindsight().hold(), seconds(1800));
}

TEST(Demand, TheWorkOfLongAnswersIsNotDueAtOnce) {
  const auto after_a_burst = [](double running) {
    DrivenLaw law(Bare());
    law.running = running;
    law.Feed(4, 600, 10, {.first_tokens = {.came = 1}});
    law.Feed(12, 5, 10, {.first_tokens = {.came = 1}});
    return law.demand();
  };
  EXPECT_GT(after_a_burst(1), 8) << "answers of a second";
  EXPECT_LT(after_a_burst(120), 7) << "answers of two minutes";
}

TEST(Demand, OccupancyCountsWhereItExceedsTheEstimatedWork) {
  DrivenLaw law(Bare());
  EXPECT_EQ(law.Feed(3, 60, 7, {.occupied = 6.5}), 8u);
  EXPECT_NEAR(law.demand(), 6.5, 1e-3);
  EXPECT_EQ(DrivenLaw(Bare()).Feed(3, 60, 4, {.occupied = 1}), 4u);
}

TEST(Demand, ABacklogCountsOnceARequestHasWaitedHalfTheTtftTarget) {
  DrivenLaw young(Bare());
  young.Feed(3, 60, 4, {.backlog = 90, .oldest = milliseconds(900)});
  EXPECT_NEAR(young.demand(), 3, 1e-3);
  DrivenLaw old(Bare());
  old.Feed(3, 60, 4, {.backlog = 90, .oldest = milliseconds(1100)});
  EXPECT_NEAR(old.demand(), 4, 1e-3);  // 90 s of work in a cold start
}

TEST(Demand, ZeroAndNanAreNoDemand) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  DrivenLaw law;
  EXPECT_EQ(law.Feed(nan, 200, 3, {.backlog = nan, .oldest = seconds(9)}), 0u);
  EXPECT_EQ(law.demand(), 0);
  EXPECT_EQ(DrivenLaw().Feed(0, 200, 3), 0u);
  EXPECT_EQ(DrivenLaw().Feed(-5, 200, 3), 0u);
}

TEST(Demand, DoesNotFlapAroundAThreshold) {
  DrivenLaw law;
  uint32_t replicas = 5;
  const auto changes_in = [&](int minutes) {
    int changes = 0;
    for (int minute = 0; minute < minutes; ++minute) {
      const uint32_t wanted = law.Feed(minute % 2 == 0 ? 4.2 : 4.5, 60, replicas);
      changes += wanted != replicas ? 1 : 0;
      replicas = wanted;
    }
    return changes;
  };
  EXPECT_LE(changes_in(300), 2) << "more, and fewer once the margin is learned";
  EXPECT_EQ(changes_in(600), 0);
}

}  // namespace
}  // namespace scheduler::autoscale
