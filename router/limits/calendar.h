// The calendar periods of budgets, in UTC: days, weeks that start on Monday, months. Pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "conf/time.h"

namespace router::limits {

enum class Period : uint8_t { kDay, kWeek, kMonth };
inline constexpr size_t kPeriods = 3;

std::string_view PeriodName(Period period);  // "day", "week", "month"

struct PeriodBounds {
  conf::TimePoint start;
  conf::TimePoint end;  // the next period's start

  bool Contains(conf::TimePoint t) const { return start <= t && t < end; }
};

// The period that contains `t`.
PeriodBounds BoundsOf(Period period, conf::TimePoint t);

}  // namespace router::limits
