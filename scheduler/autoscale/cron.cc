#include "scheduler/autoscale/cron.h"

#include <fmt/format.h>

#include <array>
#include <vector>

#include "conf/text.h"

namespace scheduler::autoscale {
namespace {

constexpr int kDaysBack = 5 * 366;

struct Field {
  std::string_view name;
  int least;
  int most;
};
constexpr std::array<Field, 5> kFields = {{{"minute", 0, 59},
                                           {"hour", 0, 23},
                                           {"day of the month", 1, 31},
                                           {"month", 1, 12},
                                           {"day of the week", 0, 7}}};

std::vector<std::string_view> Split(std::string_view text, char at) {
  std::vector<std::string_view> parts;
  while (true) {
    const size_t end = text.find(at);
    if (at != ' ' || end != 0) parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

std::optional<int> Number(std::string_view text) {
  const std::optional<int> number = conf::ReadNumber<int>(text);
  return number >= 0 ? number : std::nullopt;
}

// "1-5", "*", "*/15", "7" or "10-50/10" as numbers.
template <class Add>
bool ReadPart(std::string_view part, const Field& field, const Add& add) {
  int step = 1;
  bool stepped = false;
  if (const size_t slash = part.find('/'); slash != std::string_view::npos) {
    const auto given = Number(part.substr(slash + 1));
    if (!given || *given == 0) return false;
    step = *given;
    stepped = true;
    part = part.substr(0, slash);
  }
  int from = field.least;
  int to = field.most;
  if (part != "*") {
    const size_t dash = part.find('-');
    const auto first = Number(part.substr(0, dash));
    const auto last = dash == std::string_view::npos ? first : Number(part.substr(dash + 1));
    if (!first || !last || *first < field.least || *last > field.most || *first > *last) return false;
    from = *first;
    // "5/10" means from 5 on.
    to = stepped && dash == std::string_view::npos ? field.most : *last;
  }
  for (int at = from; at <= to; at += step) add(static_cast<size_t>(at));
  return true;
}

template <class Set>
bool ReadField(std::string_view text, const Field& field, Set& set, std::string& why) {
  set.reset();
  for (const std::string_view part : Split(text, ',')) {
    // Sunday is 0 and 7.
    if (ReadPart(part, field, [&](size_t at) { set.set(at % (field.most == 7 ? 7 : 64)); })) continue;
    why = fmt::format("{}: \"{}\" must be *, numbers from {} to {}, ranges or steps such as */15", field.name,
                      text, field.least, field.most);
    return false;
  }
  return true;
}

}  // namespace

Cron::Cron() {
  minutes_.set();
  hours_.set();
  days_.set();
  months_.set();
  weekdays_.set();
}

std::optional<Cron> Cron::Parse(std::string_view text, std::string& why) {
  std::vector<std::string_view> fields = Split(text, ' ');
  std::erase(fields, std::string_view());
  if (fields.size() != kFields.size()) {
    why = fmt::format("\"{}\" must have five fields: minute, hour, day of the month, month, day of the week",
                      text);
    return std::nullopt;
  }
  Cron cron;
  cron.text_ = text;
  if (!ReadField(fields[0], kFields[0], cron.minutes_, why) ||
      !ReadField(fields[1], kFields[1], cron.hours_, why) ||
      !ReadField(fields[2], kFields[2], cron.days_, why) ||
      !ReadField(fields[3], kFields[3], cron.months_, why) ||
      !ReadField(fields[4], kFields[4], cron.weekdays_, why)) {
    return std::nullopt;
  }
  cron.any_day_ = fields[2].starts_with('*');
  cron.any_weekday_ = fields[4].starts_with('*');
  return cron;
}

bool Cron::OnDay(absl::CivilDay day) const {
  if (!months_[static_cast<size_t>(day.month())]) return false;
  const bool of_month = days_[static_cast<size_t>(day.day())];
  const auto weekday = (static_cast<size_t>(absl::GetWeekday(day)) + 1) % 7;  // absl's Monday is 0
  const bool of_week = weekdays_[weekday];
  return any_day_ || any_weekday_ ? of_month && of_week : of_month || of_week;
}

std::optional<conf::TimePoint> Cron::LastFiring(conf::TimePoint now, const absl::TimeZone& zone) const {
  const absl::Time at = absl::FromUnixNanos(conf::ToUnixNanos(now));
  absl::CivilDay day(absl::ToCivilMinute(at, zone));
  for (int back = 0; back < kDaysBack; ++back, --day) {
    if (!OnDay(day)) continue;
    for (int hour = 23; hour >= 0; --hour) {
      if (!hours_[static_cast<size_t>(hour)]) continue;
      // An hour that lies wholly ahead has no firing; one that a clock change moves is checked minute by minute.
      if (absl::FromCivil(absl::CivilHour(day.year(), day.month(), day.day(), hour), zone) > at) continue;
      for (int minute = 59; minute >= 0; --minute) {
        if (!minutes_[static_cast<size_t>(minute)]) continue;
        const absl::Time fires =
            absl::FromCivil(absl::CivilMinute(day.year(), day.month(), day.day(), hour, minute), zone);
        if (fires <= at) return conf::TimePoint(conf::Duration(absl::ToUnixNanos(fires)));
      }
    }
  }
  return std::nullopt;
}

}  // namespace scheduler::autoscale
