#include "gateway/cli/simulate/option_problems.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "conf/file_problem.h"
#include "conf/text.h"
#include "gateway/cli/files.h"
#include "scheduler/io/bounds.h"

namespace gateway::cli {
namespace {

namespace io = scheduler::io;
using Problems = std::vector<conf::Problem>;

constexpr size_t kRowsShown = 20;
constexpr size_t kMostBytes = size_t{1} << 30;  // of one file

}  // namespace

void Refuse(Problems& problems, std::string_view option, std::string_view value, std::string message) {
  problems.push_back({.file = std::string(option),
                      .pointer = {},
                      .line = 0,
                      .value = std::string(value),
                      .message = std::move(message)});
}

bool TakeProblems(Problems& of, Problems& problems) {
  const bool none = of.empty();
  std::ranges::move(of, std::back_inserter(problems));
  return none;
}

void ReadTime(std::string_view option, const std::string& text, conf::Duration& out, Problems& problems) {
  const auto time = conf::ParseDuration(text);
  if (time && *time <= io::kLongest) {
    out = *time;
  } else {
    Refuse(problems, option, text,
           fmt::format("\"{}\" must be a duration such as 90d, 12h or 30s, at most {}", text,
                       io::kLongestInWords));
  }
}

std::optional<std::string> ReadFile(const std::string& path, Problems& problems) {
  absl::StatusOr<std::string> text = ReadWhole(path, kMostBytes);
  if (text.ok()) return *std::move(text);
  problems.push_back(conf::FileProblem(path, conf::Std(text.status().message())));
  return std::nullopt;
}

void CheckWritable(std::string_view option, const std::string& path, Problems& problems) {
  if (path.empty()) return;
  if (const std::string why = WhyNotWritable(path); !why.empty())
    Refuse(problems, option, path, fmt::format("{} cannot be written: {}", path, why));
}

bool PrintLeftOut(const io::LineReport& report, bool strict) {
  if (report.left_out == 0) return true;
  size_t shown = 0;
  for (const conf::Problem& problem : report.problems) {
    if (++shown > kRowsShown) break;
    fmt::print(stderr, "{}\n", conf::ToString(problem));
  }
  if (report.left_out > kRowsShown) fmt::print(stderr, "… and {} more\n", report.left_out - kRowsShown);
  fmt::print(stderr, "{} of {} rows left out\n", report.left_out, report.lines);
  if (!strict) return true;
  fmt::print(stderr, "tidegate: --strict: {} of {} rows cannot be simulated\n", report.left_out,
             report.lines);
  return false;
}

}  // namespace gateway::cli
