#include "router/limits/calendar.h"

#include <array>
#include <chrono>

namespace router::limits {

std::string_view PeriodName(Period period) {
  constexpr std::array<std::string_view, kPeriods> kNames = {"day", "week", "month"};
  return kNames[static_cast<size_t>(period)];
}

PeriodBounds BoundsOf(Period period, conf::TimePoint t) {
  using std::chrono::days;
  using std::chrono::sys_days;
  const sys_days day = std::chrono::floor<days>(t);
  sys_days start = day;
  sys_days end = day + days(1);
  switch (period) {
    case Period::kDay:
      break;
    case Period::kWeek:
      start = day - (std::chrono::weekday(day) - std::chrono::Monday);
      end = start + days(7);
      break;
    case Period::kMonth: {
      const std::chrono::year_month_day date(day);
      const std::chrono::year_month month(date.year(), date.month());
      start = sys_days(month / 1);
      end = sys_days((month + std::chrono::months(1)) / 1);
      break;
    }
  }
  return {conf::TimePoint(start), conf::TimePoint(end)};
}

}  // namespace router::limits
