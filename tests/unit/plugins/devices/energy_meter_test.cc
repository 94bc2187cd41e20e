// Energy from counters that reset and wrap, and from power where there is none.
#include "plugins/devices/energy_meter.h"

#include <gtest/gtest.h>

#include "scheduler/rng.h"

namespace plugins::devices {
namespace {

using std::chrono::seconds;
using Source = EnergyMeter::Source;

class EnergyOfADevice : public testing::Test {
 protected:
  EnergyMeter::Step Add(std::optional<uint64_t> counter, std::optional<double> watts,
                        conf::Duration after = seconds(1)) {
    return meter_.Add({.watts = watts, .energy_mj = counter}, now_ += after);
  }
  EnergyMeter meter_;
  conf::TimePoint now_{std::chrono::hours(1)};
};

TEST_F(EnergyOfADevice, IsWhatItsCounterHasRisenBy) {
  EXPECT_EQ(Add(1'000'000, 500).mj, 0) << "what it drew before it was measured is nobody's";
  const EnergyMeter::Step step = Add(1'450'000, 500);
  EXPECT_EQ(step.mj, 450'000);
  EXPECT_EQ(step.source, Source::kCounter);
  EXPECT_EQ(Add(31'450'000, 500, seconds(60)).mj, 30'000'000)
      << "a counter misses nothing while nobody reads";
}

TEST_F(EnergyOfADevice, IsIntegratedFromPowerAfterItsCounterWasReset) {
  Add(9'000'000, 400);
  const EnergyMeter::Step step = Add(100, 600);
  EXPECT_TRUE(step.reset);
  EXPECT_EQ(step.source, Source::kPower);
  EXPECT_EQ(step.mj, 500'000);
  EXPECT_EQ(Add(500'100, 600).mj, 500'000);
}

TEST_F(EnergyOfADevice, FollowsACounterThatWrapsAt32Bits) {
  Add((uint64_t{1} << 32) - 200'000, 400);
  const EnergyMeter::Step step = Add(200'000, 400);
  EXPECT_FALSE(step.reset);
  EXPECT_EQ(step.mj, 400'000);
}

TEST_F(EnergyOfADevice, DoesNotBelieveMoreThanADeviceCanDraw) {
  Add(0, 400);
  const EnergyMeter::Step step = Add(900'000'000, 400);
  EXPECT_EQ(step.source, Source::kPower);
  EXPECT_EQ(step.mj, 400'000);
}

TEST_F(EnergyOfADevice, WithoutACounterIsItsPowerOverTime) {
  Add(std::nullopt, 100);
  EXPECT_EQ(Add(std::nullopt, 300, seconds(2)).mj, 400'000);
  const EnergyMeter::Step gap = Add(std::nullopt, 300, seconds(60));
  EXPECT_EQ(gap.mj, 0);
  EXPECT_EQ(gap.gap, seconds(60)) << "too long to guess";
  EXPECT_EQ(Add(std::nullopt, std::nullopt).mj, 300'000);
  EXPECT_EQ(Add(std::nullopt, std::nullopt).gap, seconds(1)) << "neither a counter nor power";
}

TEST_F(EnergyOfADevice, CountsAReadingOnce) {
  Add(0, 400);
  EXPECT_EQ(meter_.Add({.energy_mj = 1000}, now_).mj, 0);
}

// Random power, resets and pauses: within 1 % of what was drawn while it could be measured.
TEST(EnergyMeterProperty, TheSumIsWhatWasDrawn) {
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    scheduler::Rng rng(seed);
    EnergyMeter meter;
    conf::TimePoint now(std::chrono::hours(1));
    const bool counts = seed % 3 != 0;
    double counter = rng.Double() * 1e7;
    double drawn = 0;
    double told = 0;
    double watts = 300;
    meter.Add(
        {.watts = watts, .energy_mj = counts ? std::optional(static_cast<uint64_t>(counter)) : std::nullopt},
        now);
    for (int i = 0; i < 3000; ++i) {
      const double next = std::clamp(watts + (rng.Double() - 0.5) * 60, 60.0, 700.0);
      const bool pause = rng.Double() < 0.002;
      const double length = pause ? 20 + rng.Double() * 600 : 0.5 + rng.Double();
      now += std::chrono::duration_cast<conf::Duration>(std::chrono::duration<double>(length));
      const double mj = (watts + next) / 2 * length * 1000;
      counter += mj;
      if (rng.Double() < 0.003) counter = rng.Double() * 1000;
      watts = next;
      const EnergyMeter::Step step =
          meter.Add({.watts = watts,
                     .energy_mj = counts ? std::optional(static_cast<uint64_t>(counter)) : std::nullopt},
                    now);
      if (step.gap == conf::Duration::zero()) drawn += mj;
      told += static_cast<double>(step.mj);
    }
    EXPECT_NEAR(told / drawn, 1, 0.01) << "seed " << seed;
  }
}

}  // namespace
}  // namespace plugins::devices
