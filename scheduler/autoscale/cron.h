// "0 8 * * 1-5": the five fields of cron, minute, hour, day of the month, month, day of the week (0 and 7 are
// Sunday), as lists of numbers, ranges and steps. As in Vixie's cron, if both days are restricted, one of them must
// match. A civil time that a change of the clock skips fires after the jump; a repeated one fires the first time only.
//
// Pure: a time zone is a value that the caller has loaded.
#pragma once

#include <absl/time/time.h>

#include <bitset>
#include <optional>
#include <string>
#include <string_view>

#include "conf/time.h"

namespace scheduler::autoscale {

class Cron {
 public:
  // "* * * * *".
  Cron();

  // Absent where the text is no cron expression; `why` then has the reason.
  static std::optional<Cron> Parse(std::string_view text, std::string& why);

  // The last time at or before `now` at which it fires; absent: none within five years before `now`.
  std::optional<conf::TimePoint> LastFiring(conf::TimePoint now, const absl::TimeZone& zone) const;

  const std::string& text() const { return text_; }

 private:
  bool OnDay(absl::CivilDay day) const;

  std::string text_ = "* * * * *";
  std::bitset<60> minutes_;
  std::bitset<24> hours_;
  std::bitset<32> days_;
  std::bitset<13> months_;
  std::bitset<7> weekdays_;
  bool any_day_ = true;      // the day of the month is "*"
  bool any_weekday_ = true;  // that of the week
};

}  // namespace scheduler::autoscale
