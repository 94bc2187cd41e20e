#include "conf/time.h"

#include <gtest/gtest.h>

namespace conf {
namespace {

using namespace std::chrono_literals;

TEST(Duration, ReadsANumberWithAUnit) {
  EXPECT_EQ(ParseDuration("250us"), 250us);
  EXPECT_EQ(ParseDuration("1.5s"), 1500ms);
  EXPECT_EQ(ParseDuration("7d"), 7 * 24h);
  EXPECT_EQ(ParseDuration("0"), 0ns);
}

TEST(Duration, RefusesABareNumberANegativeAndNonsense) {
  for (const char* text : {"", "5", "-1s", "s", "5 s", "5sec", "1e300d", "nan s"}) {
    EXPECT_EQ(ParseDuration(text), std::nullopt) << text;
  }
}

TEST(Duration, PrintsWhatItReads) {
  for (const char* text : {"0s", "1500ms", "60s", "7us", "3ns"}) {
    EXPECT_EQ(FormatDuration(*ParseDuration(text)), text);
  }
}

TEST(Time, SurvivesARoundTrip) {
  const auto t = ParseTime("2026-11-20T08:30:00.250000Z");
  ASSERT_TRUE(t);
  EXPECT_EQ(FormatTime(*t), "2026-11-20T08:30:00.250000Z");
  EXPECT_EQ(ParseTime("2026-11-20T09:30:00.25+01:00"), t);
  EXPECT_EQ(FormatTime(*ParseTime("2026-11-20")), "2026-11-20T00:00:00.000000Z");
  EXPECT_EQ(ParseTime("yesterday"), std::nullopt);
}

TEST(Time, WhatNoTimePointHoldsIsTheNearestThatOneDoes) {
  EXPECT_TRUE(FormatTime(FromUnixMicros(INT64_MAX)).starts_with("2262-"));
  EXPECT_TRUE(FormatTime(FromUnixMicros(INT64_MIN)).starts_with("1677-"));
  EXPECT_EQ(ToUnixMicros(FromUnixMicros(1'700'000'000'000'001)), 1'700'000'000'000'001);
}

}  // namespace
}  // namespace conf
