#include "scheduler/autoscale/cron.h"

#include <gtest/gtest.h>

#include "scheduler/autoscale/policy.h"

namespace scheduler::autoscale {
namespace {

Cron Of(std::string_view text) {
  std::string why;
  const std::optional<Cron> cron = Cron::Parse(text, why);
  EXPECT_TRUE(cron) << text << ": " << why;
  return cron.value_or(Cron());
}

conf::TimePoint At(std::string_view text) {
  return *conf::ParseTime(text);
}

absl::TimeZone Zone(const char* name) {
  absl::TimeZone zone;
  EXPECT_TRUE(absl::LoadTimeZone(name, &zone)) << name;
  return zone;
}

std::string Last(std::string_view cron, std::string_view now, const char* zone = "UTC") {
  const auto fired = Of(cron).LastFiring(At(now), Zone(zone));
  return fired ? conf::FormatTime(*fired).substr(0, 16) : "never";
}

TEST(Cron, FiresAtTheLastMinuteThatMatches) {
  struct Case {
    const char *cron, *now, *fired;
  };
  for (const auto& [cron, now, fired] : {
           Case{"* * * * *", "2026-11-21T13:41:59Z", "2026-11-21T13:41"},
           Case{"0 8 * * *", "2026-11-21T08:00:00Z", "2026-11-21T08:00"},
           Case{"0 8 * * *", "2026-11-21T07:59:59Z", "2026-11-20T08:00"},
           Case{"*/15 * * * *", "2026-11-21T13:44:00Z", "2026-11-21T13:30"},
           Case{"5/20 9-17 * * *", "2026-11-21T23:00:00Z", "2026-11-21T17:45"},
           Case{"0 8 * * 1-5", "2026-11-22T12:00:00Z", "2026-11-20T08:00"},  // Sunday: Friday's
           Case{"0 8 * * 7", "2026-11-21T12:00:00Z", "2026-11-15T08:00"},
           Case{"0 8 * * 0", "2026-11-21T12:00:00Z", "2026-11-15T08:00"},
           Case{"0 0 29 2 *", "2026-11-21T12:00:00Z", "2024-02-29T00:00"},
           Case{"0 0 13 * 5", "2026-11-21T12:00:00Z", "2026-11-20T00:00"},  // either day will do
           Case{"30 1,13 1 1,7 *", "2026-11-21T12:00:00Z", "2026-07-01T13:30"},
           Case{"0 0 31 2 *", "2026-11-21T12:00:00Z", "never"},
       }) {
    EXPECT_EQ(Last(cron, now), fired) << cron << " at " << now;
  }
}

TEST(Cron, KnowsTimeZonesAndTheirChanges) {
  EXPECT_EQ(Last("0 8 * * *", "2026-11-21T00:00:00Z", "Asia/Shanghai"), "2026-11-21T00:00");
  EXPECT_EQ(Last("0 8 * * *", "2026-11-20T23:59:59Z", "Asia/Shanghai"), "2026-11-20T00:00");
  // Berlin: 02:30 is left out on 29 March, and comes twice on 25 October.
  EXPECT_EQ(Last("30 2 * * *", "2026-03-29T12:00:00Z", "Europe/Berlin"), "2026-03-29T01:00");
  EXPECT_EQ(Last("30 2 * * *", "2026-10-25T12:00:00Z", "Europe/Berlin"), "2026-10-25T00:30");
  EXPECT_EQ(Last("0 9 * * *", "2026-07-01T12:00:00Z", "Europe/Berlin"), "2026-07-01T07:00");
}

TEST(Cron, ExplainsErrors) {
  for (const char* text : {"", "* * * *", "* * * * * *", "60 * * * *", "* 24 * * *", "* * 0 * *",
                           "* * * 13 *", "* * * * 8", "5-1 * * * *", "*/0 * * * *", "a * * * *", "1, * * * *",
                           "-1 * * * *", "1-2-3 * * * *", "99999999999999999999 * * * *"}) {
    std::string why;
    EXPECT_FALSE(Cron::Parse(text, why)) << text;
    EXPECT_FALSE(why.empty()) << text;
  }
}

TEST(Cron, TheEntryThatFiredLastSetsTheFloor) {
  const std::vector<ScheduledFloor> schedule = {{.cron = Of("0 8 * * 1-5"), .min = 4},
                                                {.cron = Of("0 20 * * *"), .min = 1},
                                                {.cron = Of("0 20 * * *"), .min = 2}};
  EXPECT_EQ(FloorAt(schedule, At("2026-11-20T12:00:00Z")), 4u);  // Friday
  EXPECT_EQ(FloorAt(schedule, At("2026-11-20T20:00:00Z")), 2u);  // of two at once the higher
  EXPECT_EQ(FloorAt(schedule, At("2026-11-21T12:00:00Z")), 2u);
  EXPECT_EQ(FloorAt({}, At("2026-11-21T12:00:00Z")), 0u);
}

}  // namespace
}  // namespace scheduler::autoscale
