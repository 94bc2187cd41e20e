#include "scheduler/sim/traces/trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "conf/text.h"
#include "scheduler/io/bounds.h"

namespace scheduler::sim {
namespace {

constexpr size_t kLongestValue = 120;

}  // namespace

// In place, since a long trace takes much memory.
void SortBySubmission(std::vector<TraceJob>& jobs) {
  std::vector<size_t> from(jobs.size());  // by place: the job that belongs there
  std::iota(from.begin(), from.end(), size_t{0});
  std::ranges::sort(from, {}, [&](size_t i) { return std::pair(jobs[i].job.submitted, i); });
  for (size_t first = 0; first < jobs.size(); ++first) {
    size_t place = first;
    for (size_t next = from[place]; next != first; next = from[place]) {
      std::swap(jobs[place], jobs[next]);
      from[place] = place;
      place = next;
    }
    from[place] = place;
  }
}

std::vector<Role> GangOf(uint32_t count, uint32_t per_node) {
  const auto role = [](std::string name, uint32_t members, uint32_t devices) {
    Role made;
    made.name = std::move(name);
    made.ask.devices = {{.count = static_cast<uint16_t>(devices)}};
    made.count = made.min_count = members;
    return made;
  };
  std::vector<Role> roles;
  if (count / per_node > 0) roles.push_back(role("worker", count / per_node, per_node));
  if (count % per_node > 0) roles.push_back(role(roles.empty() ? "worker" : "rest", 1, count % per_node));
  return roles;
}

void SplitAtCommas(std::string_view line, std::vector<std::string_view>& fields) {
  fields.clear();
  while (true) {
    const size_t quote = line.starts_with('"') ? line.find('"', 1) : std::string_view::npos;
    if (quote != std::string_view::npos && (quote + 1 == line.size() || line[quote + 1] == ',')) {
      fields.push_back(line.substr(1, quote - 1));
      if (quote + 1 == line.size()) return;
      line.remove_prefix(quote + 2);
      continue;
    }
    const size_t comma = line.find(',');
    fields.push_back(line.substr(0, comma));
    if (comma == std::string_view::npos) return;
    line.remove_prefix(comma + 1);
  }
}

bool ColumnOrder::TakeHeader(const std::vector<std::string_view>& fields) {
  if (!places_.empty() || std::ranges::find(fields, names_.front()) == fields.end()) return false;
  width_ = fields.size();
  for (const std::string_view name : names_)
    places_.push_back(static_cast<size_t>(std::ranges::find(fields, name) - fields.begin()));
  return true;
}

bool ColumnOrder::HasColumn(std::string_view name) const {
  const auto at = std::ranges::find(names_, name);
  return places_.empty() || places_[static_cast<size_t>(at - names_.begin())] < width_;
}

std::string ColumnOrder::Arrange(std::vector<std::string_view>& fields) const {
  if (places_.empty()) return {};
  if (fields.size() != width_) return fmt::format("{} fields, the header has {}", fields.size(), width_);
  std::vector<std::string_view> arranged;
  for (const size_t place : places_) arranged.push_back(place < width_ ? fields[place] : std::string_view());
  fields = std::move(arranged);
  return {};
}

void SplitAtBlanks(std::string_view line, std::vector<std::string_view>& fields) {
  constexpr std::string_view kBlanks = " \t";
  fields.clear();
  while (true) {
    const size_t begin = line.find_first_not_of(kBlanks);
    if (begin == std::string_view::npos) return;
    line.remove_prefix(begin);
    const size_t end = std::min(line.find_first_of(kBlanks), line.size());
    fields.push_back(line.substr(0, end));
    line.remove_prefix(end);
  }
}

std::optional<int64_t> ParseInteger(std::string_view text) {
  if (const std::optional<int64_t> whole = conf::ReadNumber<int64_t>(text)) return whole;
  constexpr double kMost = 1e15;  // a double has each integer up to there
  const std::optional<double> real = ParseReal(text);
  if (!real || std::abs(*real) > kMost || std::trunc(*real) != *real) return std::nullopt;
  return static_cast<int64_t>(*real);
}

std::optional<double> ParseReal(std::string_view text) {
  const std::optional<double> value = conf::ReadNumber<double>(text);
  return value && std::isfinite(*value) ? value : std::nullopt;
}

std::optional<conf::Duration> Seconds(double seconds) {
  constexpr double kMost = 9.2e9;
  if (!(std::abs(seconds) < kMost)) return std::nullopt;
  return conf::Duration(std::llround(seconds * 1e9));
}

std::string DefectOfTimes(const TraceJob& job) {
  if (job.job.submitted < io::kEarliest || job.job.submitted > io::kLatest) {
    return "it is submitted before 1970 or after 2100";
  }
  if (job.run && *job.run > io::kLongest) return fmt::format("it runs for more than {}", io::kLongestInWords);
  if (job.job.estimate && *job.job.estimate > io::kLongest) {
    return fmt::format("more than {} are estimated for it", io::kLongestInWords);
  }
  return {};
}

void LeaveOutRow(Trace& trace, const std::string& file, int line, std::string_view row,
                 std::string_view why) {
  LeaveOut(trace, file, line, row,
           fmt::format("{}; it says \"{}\"{}", why, row.substr(0, kLongestValue),
                       row.size() > kLongestValue ? "..." : ""));
}

void LeaveOut(Trace& trace, const std::string& file, int line, std::string_view value, std::string message) {
  ++trace.report.left_out;
  trace.report.Add({.file = file,
                    .pointer = {},
                    .line = line,
                    .value = std::string(value.substr(0, kLongestValue)),
                    .message = std::move(message)});
}

}  // namespace scheduler::sim
