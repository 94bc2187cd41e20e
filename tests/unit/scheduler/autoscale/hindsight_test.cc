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

}  // namespace
}  // namespace scheduler::autoscale
