#include "scheduler/sim/traces/philly.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>

#include "scheduler/io/lines.h"

namespace scheduler::sim {
namespace {

constexpr std::array<std::string_view, 5> kPhillyColumns = {"timestamp", "duration", "num_gpus", "gpu_time",
                                                            "cluster"};
constexpr int64_t kMostDevices = 1 << 20;

// "2017-10-09 07:01:55", UTC.
std::optional<conf::TimePoint> ParseStamp(std::string_view text) {
  if (text.size() != 19 || text[10] != ' ') return std::nullopt;
  std::string rfc(text);
  rfc[10] = 'T';
  rfc += 'Z';
  return conf::ParseTime(rfc);
}

// The defect of the row; empty: none, and `job` is set.
std::string ReadRow(const std::vector<std::string_view>& fields, uint32_t per_node, TraceJob& out) {
  if (fields.size() != kPhillyColumns.size()) {
    return fmt::format("{} fields, a row has {}: {}", fields.size(), kPhillyColumns.size(),
                       fmt::join(kPhillyColumns, ","));
  }
  const auto submitted = ParseStamp(fields[0]);
  if (!submitted) return "timestamp: must be a time like 2017-10-09 07:01:55";
  const auto seconds = ParseReal(fields[1]);
  const auto run = seconds ? Seconds(*seconds) : std::nullopt;
  if (!run) return "duration: must be a number of seconds";
  if (*run < conf::Duration::zero()) return "duration: must not be negative";
  const auto gpus = ParseInteger(fields[2]);
  if (!gpus) return "num_gpus: must be a whole number";
  if (*gpus < 1 || *gpus > kMostDevices) return fmt::format("num_gpus: must be 1 to {}", kMostDevices);
  if (fields[4].empty()) return "cluster: must not be empty";
  out.job.submitted = *submitted;
  out.job.queue = fields[4];
  out.job.user = fields[4];
  out.job.roles = GangOf(static_cast<uint32_t>(*gpus), per_node);
  out.run = *run;
  return DefectOfTimes(out);
}

}  // namespace

Trace ReadPhilly(std::string_view text, const std::string& file, uint32_t devices_per_node) {
  Trace trace;
  ColumnOrder order(kPhillyColumns);
  std::vector<std::string_view> fields;
  io::ForEachLine(text, [&](std::string_view line, int number) {
    if (line.empty()) return;
    SplitAtCommas(line, fields);
    if (trace.report.lines == 0 && order.TakeHeader(fields)) return;
    ++trace.report.lines;
    TraceJob job;
    std::string wrong = order.Arrange(fields);
    if (wrong.empty()) wrong = ReadRow(fields, devices_per_node, job);
    if (!wrong.empty()) return LeaveOutRow(trace, file, number, line, wrong);
    job.line = number;
    job.job.id = fmt::format("philly-{}", number);
    trace.jobs.push_back(std::move(job));
  });
  SortBySubmission(trace.jobs);
  return trace;
}

}  // namespace scheduler::sim
