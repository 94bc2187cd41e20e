#include "scheduler/autoscale/hindsight.h"

#include <gtest/gtest.h>

namespace scheduler::autoscale {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;

class ReplayedHindsight {
 public:
  explicit ReplayedHindsight(double attainment = 0.99, conf::Duration lead = seconds(90)) : lead_(lead) {
    ScalingPolicy policy;
    policy.attainment = attainment;
    hindsight.emplace(policy);
  }
  void Feed(double load, conf::Duration length) {
    for (const conf::TimePoint end = now_ + length; now_ < end;)
      hindsight->Add(load, lead_, now_ += seconds(1));
  }
  // Of three minutes each, every 20.
  void Bursts(int count) {
    for (int i = 0; i < count; ++i) {
      Feed(0.1, minutes(17));
      Feed(8, minutes(3));
    }
  }
  conf::TimePoint now() const { return now_; }
  std::optional<Hindsight> hindsight;

 private:
  conf::Duration lead_;
  conf::TimePoint now_{std::chrono::hours(1'000)};
};

TEST(Hindsight, SteadyLoadNeedsLittleMargin) {
  ReplayedHindsight steady;
  steady.Feed(5, minutes(120));
  EXPECT_LE(steady.hindsight->margin(), 0.2);
  EXPECT_LE(steady.hindsight->hold(), minutes(8));
}

TEST(Hindsight, ReplicasAreKeptThroughIdleMinutesOnceBurstsHaveReturned) {
  ReplayedHindsight bursts;
  bursts.Bursts(1);
  EXPECT_LT(bursts.hindsight->hold(), minutes(16)) << "one burst is no pattern";
  bursts.Bursts(4);
  EXPECT_GE(bursts.hindsight->hold(), minutes(16));
  bursts.Feed(0.1, minutes(10));
  EXPECT_GE(bursts.hindsight->kept(), 8);
}

TEST(Hindsight, LatenessCostsLessWhereLessOfItMatters) {
  ReplayedHindsight strict(0.99);
  ReplayedHindsight lax(0.5);
  strict.Bursts(5);
  lax.Bursts(5);
  EXPECT_LT(lax.hindsight->hold(), strict.hindsight->hold());
}

TEST(Hindsight, GrowthDuringALongStartIsKeptFree) {
  const auto margin = [](conf::Duration lead) {
    ReplayedHindsight growing(0.99, lead);
    for (int i = 0; i < 200; ++i) growing.Feed(2 + 0.1 * i, seconds(20));
    return growing.hindsight->margin();
  };
  EXPECT_GT(margin(minutes(5)), margin(seconds(15)));
}

TEST(Hindsight, WhatWasLearnedIsRecalledByTheNextProcess) {
  ReplayedHindsight before;
  before.Bursts(5);
  before.Feed(0.1, minutes(5));
  ScalingPolicy policy;
  policy.attainment = 0.99;
  Hindsight after(policy);
  ASSERT_NE(after.hold(), before.hindsight->hold());
  const conf::TimePoint at = before.now();
  EXPECT_TRUE(after.Recall(before.hindsight->memory(), at, at + minutes(1)));
  EXPECT_EQ(after.hold(), before.hindsight->hold());
  EXPECT_EQ(after.margin(), before.hindsight->margin());
  after.Add(0.1, seconds(90), at + minutes(1));
  EXPECT_EQ(after.kept(), before.hindsight->kept()) << "replicas of the last burst are kept";
  after.Add(0.1, seconds(90), at + minutes(1) + before.hindsight->hold() + seconds(1));
  EXPECT_LT(after.kept(), 1);
}

TEST(Hindsight, WhatWasLearnedWithOtherSettingsIsNotRecalled) {
  ReplayedHindsight before;
  before.Bursts(5);
  ScalingPolicy policy;
  policy.min = 3;
  Hindsight after(policy);
  const conf::Duration usual = after.hold();
  EXPECT_FALSE(after.Recall(before.hindsight->memory(), before.now(), before.now()));
  EXPECT_EQ(after.hold(), usual);
  Hindsight::Memory cut = before.hindsight->memory();
  cut.holds[2].rules.pop_back();
  policy.min = 0;
  Hindsight same(policy);
  EXPECT_FALSE(same.Recall(cut, before.now(), before.now()));
}

TEST(Hindsight, WhatWasLearnedDaysAgoIsWeakEvidence) {
  ReplayedHindsight before;
  before.Bursts(5);
  ScalingPolicy policy;
  policy.attainment = 0.99;
  Hindsight after(policy);
  EXPECT_TRUE(
      after.Recall(before.hindsight->memory(), before.now(), before.now() + std::chrono::hours(24 * 9)));
  EXPECT_LT(after.memory().load_seconds, before.hindsight->memory().load_seconds / 1'000);
}

}  // namespace
}  // namespace scheduler::autoscale
