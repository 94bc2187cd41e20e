#include "scheduler/autoscale/daily_peaks.h"

#include <gtest/gtest.h>

namespace scheduler::autoscale {
namespace {

using namespace std::chrono_literals;

const conf::TimePoint kMidnight = conf::TimePoint(24h * 20'000);

// One replica all day, and `burst` from nine to half past.
void ObserveADay(DailyPeaks& peaks, int day, uint32_t burst) {
  for (conf::Duration at = 0h; at < 24h; at += 1min)
    peaks.Observe(kMidnight + 24h * day + at, at >= 9h && at < 9h + 30min ? burst : 1);
}

TEST(DailyPeaks, ABurstOfOneDayIsForeseenOnTheNextAnHourBefore) {
  DailyPeaks peaks;
  ObserveADay(peaks, 0, 6);
  EXPECT_EQ(peaks.Forecast(kMidnight + 24h + 7h, 1h), 1u);
  EXPECT_EQ(peaks.Forecast(kMidnight + 24h + 8h + 5min, 1h), 6u);
  EXPECT_EQ(peaks.Forecast(kMidnight + 24h + 9h + 20min, 1h), 6u);
  EXPECT_EQ(peaks.Forecast(kMidnight + 24h + 9h + 40min, 1h), 1u);
}

TEST(DailyPeaks, NothingIsForeseenOnTheFirstDay) {
  DailyPeaks peaks;
  EXPECT_EQ(peaks.Forecast(kMidnight, 1h), 0u);
  ObserveADay(peaks, 0, 6);
  EXPECT_EQ(peaks.Forecast(kMidnight + 23h, 30min), 0u);
}

TEST(DailyPeaks, TheMostOfTheLastSevenDaysCountsAndAnOlderDayDoesNot) {
  DailyPeaks peaks;
  ObserveADay(peaks, 0, 9);
  for (int day = 1; day <= 6; ++day) ObserveADay(peaks, day, 2);
  EXPECT_EQ(peaks.Forecast(kMidnight + 24h * 7 + 8h + 30min, 1h), 9u);
  ObserveADay(peaks, 7, 3);
  EXPECT_EQ(peaks.Forecast(kMidnight + 24h * 8 + 8h + 30min, 1h), 3u);
}

TEST(DailyPeaks, WhatWasNotObservedIsNoDemandOfTheWeekBefore) {
  DailyPeaks peaks;
  ObserveADay(peaks, 0, 9);
  peaks.Observe(kMidnight + 24h * 9, 1);  // nine days without a look
  EXPECT_EQ(peaks.Forecast(kMidnight + 24h * 9 + 8h + 30min, 1h), 0u);
  EXPECT_EQ(peaks.Forecast(kMidnight + 24h * 10, 10min), 1u);
}

TEST(DailyPeaks, ManyReplicasAreNotWrappedAround) {
  DailyPeaks peaks;
  peaks.Observe(kMidnight, 70'000);
  EXPECT_EQ(peaks.Forecast(kMidnight + 24h, 10min), 65'535u);
}

TEST(DailyPeaks, ADayThatAnEarlierProcessSawIsForeseen) {
  DailyPeaks before;
  ObserveADay(before, 0, 6);
  DailyPeaks after;
  after.Recall(before.memory());
  EXPECT_EQ(after.Forecast(kMidnight + 24h + 8h + 5min, 1h), 6u);
  after.Observe(kMidnight + 24h + 8h, 1);
  EXPECT_EQ(after.Forecast(kMidnight + 24h + 8h + 5min, 1h), 6u);
  EXPECT_EQ(after.memory().most.size(), 144u + 49u);
  DailyPeaks none;
  none.Recall(DailyPeaks().memory());
  EXPECT_EQ(none.Forecast(kMidnight + 24h, 1h), 0u);
}

}  // namespace
}  // namespace scheduler::autoscale
