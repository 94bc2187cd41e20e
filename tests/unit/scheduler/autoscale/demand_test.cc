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
      wanted = law_.Decide(more, replicas, 0, cold_start_, now_ += seconds(1));
    return wanted;
  }
  double demand() const { return law_.demand(); }

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

TEST(Demand, AHigherAttainmentKeepsMoreFree) {
  const auto after_bursts = [](double attainment) {
    ScalingPolicy policy = DrivenLaw::Policy();
    policy.attainment = attainment;
    DrivenLaw law(seconds(90), policy);
    for (int burst = 0; burst < 20; ++burst) {
      law.Feed(10, 60, 10);
      law.Feed(12, 60, 10);
    }
    return law.demand() - 12;
  };
  const double usual = after_bursts(0.99);
  EXPECT_GT(usual, 0.5);
  EXPECT_NEAR(after_bursts(0.995) / usual, 2.5758 / 2.3263, 0.01);
  EXPECT_NEAR(after_bursts(0.9) / usual, 1.2816 / 2.3263, 0.01);
  EXPECT_NEAR(after_bursts(1) / usual, 3.7190 / 2.3263, 0.01) << "all there can be is 99.99 %";
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

TEST(Demand, GoesUpAboveUpAtAndOnlyAsFarAsNeeded) {
  EXPECT_EQ(DrivenLaw().Feed(3.5, 60, 4), 4u);
  EXPECT_EQ(DrivenLaw().Feed(3.7, 60, 4), 5u);
  EXPECT_EQ(DrivenLaw().Feed(9.0, 60, 4), 10u);
}

TEST(Demand, GoesDownOnlyIfOneLessIsStillBelowUpAt) {
  DrivenLaw few;
  EXPECT_EQ(few.Feed(0.95, 200, 2), 2u);  // below 0.80 of two, above 0.90 of one
  DrivenLaw enough;
  EXPECT_EQ(enough.Feed(0.85, 200, 2), 1u);
  DrivenLaw many;
  EXPECT_EQ(many.Feed(7.5, 200, 10), 9u);  // 7.5 is below 8, and above 0.80 of nine
}

TEST(Demand, ScalesDownAfterFewerSufficedForTheWholeHold) {
  DrivenLaw law({.window = seconds(15), .hold = seconds(120), .margin = 0});
  EXPECT_EQ(law.Feed(8.5, 120, 10), 10u);
  EXPECT_EQ(law.Feed(2, 100, 10), 10u);
  EXPECT_EQ(law.Feed(2, 45, 10), 3u);
}

TEST(Demand, KeepsItsDeviationFree) {
  DrivenLaw steady;
  steady.Feed(4, 600, 5);
  EXPECT_NEAR(steady.demand(), 4, 1e-9);
  DrivenLaw bursts;
  for (int minute = 0; minute < 10; ++minute) {
    bursts.Feed(8, 5, 20);
    bursts.Feed(3.6364, 55, 20);  // 4 on the mean
  }
  bursts.Feed(4, 15, 20);
  EXPECT_GT(bursts.demand(), 4.3);
}

TEST(Demand, KeepsTheGrowthDuringAColdStartFree) {
  const auto growing = [](conf::Duration cold_start) {
    DrivenLaw law({}, cold_start);
    double work = 4;
    for (int second = 0; second < 3600; ++second) law.Feed(work += 0.01, 1, 20);
    return law.demand() - work;
  };
  // By 0.9 in one and a half minutes, by 3 in five; the same again, since growth is not half of the time.
  const double soon = growing(seconds(90));
  EXPECT_GT(soon, 0.8);
  EXPECT_LT(soon, 2);
  EXPECT_GT(growing(seconds(300)), soon + 2);
}

TEST(Demand, AfterAFallAtMostHalfOfTheLevelIsKeptFree) {
  DrivenLaw law;
  law.Feed(8, 600, 10);
  law.Feed(1, 150, 10);
  EXPECT_GT(law.demand(), 1.2);
  EXPECT_LE(law.demand(), 1.5);
}

TEST(Demand, GrowthThatIsNotRandomCountsAtOnce) {
  DrivenLaw steady;
  steady.Feed(4, 300, 6);
  steady.Feed(12, 5, 6);
  EXPECT_GT(steady.demand(), 8);
  // Where one second differs from the next as much, five of them are no sign.
  DrivenLaw noisy;
  for (int i = 0; i < 150; ++i) {
    noisy.Feed(0, 1, 6);
    noisy.Feed(12, 1, 6);
  }
  noisy.Feed(12, 2, 6);
  EXPECT_LT(noisy.demand(), 12);
}

TEST(Demand, OccupancyCountsWhereItExceedsTheEstimatedWork) {
  DrivenLaw law;
  EXPECT_EQ(law.Feed(3, 60, 7, {.occupied = 6.5}), 8u);
  EXPECT_EQ(law.demand(), 6.5);
  EXPECT_EQ(DrivenLaw().Feed(3, 60, 4, {.occupied = 1}), 4u);
}

TEST(Demand, ABacklogCountsOnceARequestHasWaitedHalfTheTtftTarget) {
  DrivenLaw young;
  young.Feed(3, 30, 4, {.backlog = 30, .oldest = milliseconds(900)});
  EXPECT_NEAR(young.demand(), 3, 1e-9);
  DrivenLaw old;
  old.Feed(3, 30, 4, {.backlog = 30, .oldest = milliseconds(1100)});
  EXPECT_NEAR(old.demand(), 5, 1e-9);  // 30 s of work in 15 s
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
  int changes = 0;
  for (int minute = 0; minute < 120; ++minute) {
    const uint32_t wanted = law.Feed(minute % 2 == 0 ? 4.2 : 4.5, 60, replicas);
    changes += wanted != replicas ? 1 : 0;
    replicas = wanted;
  }
  EXPECT_LE(changes, 1);
}

}  // namespace
}  // namespace scheduler::autoscale
