// Which measurements make a device unfit, and which do not.
#include "plugins/devices/condition.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace plugins::devices {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;
using testing::HasSubstr;

class ConditionOfADevice : public testing::Test {
 protected:
  void Add(const Reading& reading, conf::Duration times = seconds(1)) {
    for (const conf::TimePoint until = now_ + times; now_ < until;)
      condition_.Add(reading, now_ += seconds(1));
  }
  static Reading Slowed(Throttling by) { return {.celsius = 91, .throttling = by}; }
  std::string Why() const { return condition_.fault() ? condition_.fault()->why : ""; }

  Condition condition_;
  conf::TimePoint now_ = conf::TimePoint(std::chrono::hours(1));
  const Reading well_{.celsius = 60, .throttling = Throttling()};
};

TEST_F(ConditionOfADevice, HeatForMinutesIsAFaultWithItsEvidence) {
  Add(well_, minutes(1));
  Add(Slowed({.thermal = true}), minutes(4));
  EXPECT_EQ(Why(), "");
  Add(Slowed({.thermal = true}), minutes(2));
  EXPECT_THAT(Why(), HasSubstr("heat has slowed it down for minutes, at up to 91 °C"));
  EXPECT_FALSE(condition_.fault()->lost);
}

TEST_F(ConditionOfADevice, ThePowerBrakeIsAFaultAndTheOrdinaryPowerCapIsNot) {
  Add(Slowed({.power_cap = true}), minutes(60));
  EXPECT_EQ(Why(), "");
  Add(Slowed({.power_brake = true, .slowdown = true}), minutes(6));
  EXPECT_THAT(Why(), HasSubstr("power brake"));
}

TEST_F(ConditionOfADevice, ASensorThatFlapsIsNoFault) {
  for (int i = 0; i < 600; ++i) {
    Add(Slowed({.thermal = true}), seconds(2));
    Add(well_, seconds(3));
  }
  EXPECT_EQ(Why(), "");
}

TEST_F(ConditionOfADevice, AFaultThatComesBackLastsLonger) {
  const auto calm_for = [&] {
    Add(Slowed({.thermal = true}), minutes(6));
    EXPECT_NE(Why(), "");
    const conf::TimePoint from = now_;
    while (condition_.fault() && now_ - from < std::chrono::hours(30)) Add(well_);
    return now_ - from;
  };
  const conf::Duration first = calm_for();
  const conf::Duration second = calm_for();
  EXPECT_GE(first, Condition::kCalmFor);
  EXPECT_GE(second, 2 * Condition::kCalmFor);
}

TEST_F(ConditionOfADevice, OneThatCannotBeReachedIsLostAfterSeveralReadings) {
  Add(well_);
  Add({.lost = true}, seconds(Condition::kLostAfter - 1));
  EXPECT_EQ(Why(), "");
  Add(well_);
  Add({.lost = true}, seconds(Condition::kLostAfter));
  EXPECT_THAT(Why(), HasSubstr("its driver cannot reach it"));
  EXPECT_TRUE(condition_.fault()->lost);
  Add(well_, seconds(5));
  EXPECT_NE(Why(), "");
  Add(well_, seconds(6));
  EXPECT_EQ(Why(), "") << "it answers again";
}

TEST_F(ConditionOfADevice, OneThatIsNoLongerListedIsLost) {
  Add(well_);
  for (int i = 0; i < Condition::kLostAfter; ++i) condition_.AddMissing(now_ += seconds(1));
  EXPECT_THAT(Why(), HasSubstr("no longer lists it"));
}

TEST_F(ConditionOfADevice, NewUncorrectedErrorsAreAFaultAndOldOnesAreNot) {
  Add({.ecc_uncorrected = 7}, minutes(10));
  EXPECT_EQ(Why(), "");
  Add({.ecc_uncorrected = 8}, seconds(1));
  Add({.ecc_uncorrected = 7}, seconds(1));
  EXPECT_EQ(Why(), "") << "one odd reading";
  Add({.ecc_uncorrected = 9}, seconds(3));
  EXPECT_THAT(Why(), HasSubstr("2 uncorrected ECC errors"));
  Add({.ecc_uncorrected = 9}, minutes(60));
  EXPECT_NE(Why(), "") << "until it is reset";
  Add({.ecc_uncorrected = 0}, minutes(6));
  EXPECT_EQ(Why(), "");
}

TEST_F(ConditionOfADevice, MemoryThatIsGoneIsAFault) {
  Add({.memory_total_mib = 81'559}, minutes(1));
  Add({.memory_total_mib = 81'000}, minutes(1));
  EXPECT_EQ(Why(), "");
  Add({.memory_total_mib = 40'000}, seconds(3));
  EXPECT_THAT(Why(), HasSubstr("40000 MiB are left of 81559"));
}

TEST_F(ConditionOfADevice, AnXidCountsByItsMeaning) {
  Add({.xid = 31}, minutes(1));
  EXPECT_EQ(Why(), "") << "a program's own fault";
  Add({.xid = 79});
  EXPECT_THAT(Why(), HasSubstr("Xid 79: it has fallen off the bus"));
  EXPECT_TRUE(condition_.fault()->lost);
}

TEST_F(ConditionOfADevice, ADeviceThatIsNotReadDecidesNothing) {
  Add({.throttling = Throttling{.thermal = true}});
  condition_.Add({}, now_ += std::chrono::hours(10));
  Add({}, minutes(1));
  EXPECT_EQ(Why(), "");
}

}  // namespace
}  // namespace plugins::devices
