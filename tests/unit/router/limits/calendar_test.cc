#include "router/limits/calendar.h"

#include <gtest/gtest.h>

namespace router::limits {
namespace {

TEST(Calendar, PeriodsBeginAtMidnightUtcOnMondaysAndOnTheFirst) {
  struct Case {
    Period period;
    const char* at;
    const char* start;
    const char* end;
  };
  const Case cases[] = {
      {Period::kDay, "2026-11-20T08:30:00Z", "2026-11-20", "2026-11-21"},
      {Period::kDay, "2026-11-20T00:00:00Z", "2026-11-20", "2026-11-21"},
      {Period::kDay, "2026-12-31T23:59:59.999999Z", "2026-12-31", "2027-01-01"},
      {Period::kWeek, "2026-11-20T08:30:00Z", "2026-11-16", "2026-11-23"},
      {Period::kWeek, "2026-11-16T00:00:00Z", "2026-11-16", "2026-11-23"},
      {Period::kWeek, "2026-11-22T23:59:59Z", "2026-11-16", "2026-11-23"},
      {Period::kWeek, "2027-01-02T12:00:00Z", "2026-12-28", "2027-01-04"},
      {Period::kMonth, "2026-11-20T08:30:00Z", "2026-11-01", "2026-12-01"},
      {Period::kMonth, "2026-12-01T00:00:00Z", "2026-12-01", "2027-01-01"},
      {Period::kMonth, "2028-02-29T23:00:00Z", "2028-02-01", "2028-03-01"},
  };
  for (const Case& c : cases) {
    const PeriodBounds bounds = BoundsOf(c.period, *conf::ParseTime(c.at));
    EXPECT_EQ(bounds.start, *conf::ParseTime(c.start)) << PeriodName(c.period) << " of " << c.at;
    EXPECT_EQ(bounds.end, *conf::ParseTime(c.end)) << PeriodName(c.period) << " of " << c.at;
    EXPECT_TRUE(bounds.Contains(*conf::ParseTime(c.at)));
    EXPECT_FALSE(bounds.Contains(bounds.end));
  }
}

}  // namespace
}  // namespace router::limits
