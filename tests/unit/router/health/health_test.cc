#include "router/health/health.h"

#include <gtest/gtest.h>

namespace router {
namespace {

using namespace std::chrono_literals;
using enum ProbeResult;

constexpr conf::TimePoint kStart{1'000'000s};

TEST(Health, AnUnknownReplicaIsUsedUntilItsFirstProbeFails) {
  Health health;
  EXPECT_EQ(health.state(), HealthState::kUnknown);
  EXPECT_TRUE(health.Usable());
  health.OnProbe(kMissed, kStart);
  EXPECT_TRUE(health.Usable());
  health.OnProbe(kFailed, kStart);
  EXPECT_EQ(health.state(), HealthState::kDown);
  Health other;
  other.OnProbe(kGood, kStart);
  EXPECT_EQ(other.state(), HealthState::kUp);
}

TEST(Health, GoesDownAfterFallAndUpAfterRiseProbes) {
  Health health({.rise = 2, .fall = 3});
  health.OnProbe(kGood, kStart);
  health.OnProbe(kFailed, kStart);
  health.OnProbe(kMissed, kStart);
  EXPECT_TRUE(health.Usable());
  health.OnProbe(kGood, kStart);
  health.OnProbe(kFailed, kStart);
  health.OnProbe(kFailed, kStart);
  EXPECT_TRUE(health.Usable());
  health.OnProbe(kFailed, kStart);
  EXPECT_FALSE(health.Usable());
  health.OnProbe(kGood, kStart);
  EXPECT_FALSE(health.Usable());
  health.OnProbe(kGood, kStart);
  EXPECT_TRUE(health.Usable());
}

TEST(Health, ABusyEngineThatMissesProbesStaysUpWhileItAnswersRequests) {
  Health health;
  health.OnProbe(kGood, kStart);
  for (int i = 0; i < 20; ++i) {
    health.OnTraffic();
    health.OnProbe(kMissed, kStart);
    ASSERT_TRUE(health.Usable());
  }
  for (int i = 0; i < 3; ++i) health.OnProbe(kMissed, kStart);
  EXPECT_FALSE(health.Usable());
}

TEST(Health, AFailedProbeCountsWhateverTheTraffic) {
  Health health;
  health.OnProbe(kGood, kStart);
  for (int i = 0; i < 3; ++i) {
    health.OnTraffic();
    health.OnProbe(kFailed, kStart);
  }
  EXPECT_FALSE(health.Usable());
}

TEST(Health, ProbesAreDueOneAtATimeAndFasterWhileDown) {
  Health health;
  EXPECT_TRUE(health.ClaimDue(kStart));
  EXPECT_FALSE(health.ClaimDue(kStart + 1h));
  health.OnProbe(kGood, kStart + 1s);
  EXPECT_EQ(health.next_probe(), kStart + 6s);
  EXPECT_FALSE(health.ClaimDue(kStart + 5s));
  EXPECT_TRUE(health.ClaimDue(kStart + 6s));
  for (int i = 0; i < 3; ++i) health.OnProbe(kFailed, kStart + 7s);
  EXPECT_EQ(health.next_probe(), kStart + 8s);
}

TEST(Health, ChangedSettingsKeepObservations) {
  Health health({.fall = 3});
  health.OnProbe(kGood, kStart);
  health.OnProbe(kFailed, kStart);
  health.Configure({.fall = 2});
  health.OnProbe(kFailed, kStart);
  EXPECT_EQ(HealthName(health.state()), "down");
}

}  // namespace
}  // namespace router
