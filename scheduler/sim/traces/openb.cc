#include "scheduler/sim/traces/openb.h"

#include <fmt/format.h>

#include <array>

#include "scheduler/io/bounds.h"
#include "scheduler/io/lines.h"

namespace scheduler::sim {
namespace {

constexpr std::array<std::string_view, 11> kOpenbColumns = {
    "name", "cpu_milli", "memory_mib",    "num_gpu",       "gpu_milli",     "gpu_spec",
    "qos",  "pod_phase", "creation_time", "deletion_time", "scheduled_time"};
constexpr size_t kColumns = kOpenbColumns.size();
constexpr size_t kColumnsWithoutTimes = 5;

// Kinds in a specification such as "V100M16|V100M32": any of them will do.
std::vector<std::string> KindsOf(std::string_view spec) {
  std::vector<std::string> kinds;
  while (!spec.empty()) {
    const size_t bar = spec.find('|');
    if (bar != 0) kinds.emplace_back(spec.substr(0, bar));
    spec.remove_prefix(bar == std::string_view::npos ? spec.size() : bar + 1);
  }
  return kinds;
}

std::string ReadDevices(const std::vector<std::string_view>& fields, Ask& ask) {
  const auto gpus = ParseInteger(fields[3]);
  const auto milli = ParseInteger(fields[4]);
  if (!gpus || *gpus < 0 || *gpus > kMaxDevices) {
    return fmt::format("num_gpu: must be a whole number from 0 to {}", kMaxDevices);
  }
  if (*gpus == 0) return {};
  if (!milli || *milli < 1 || *milli > kWholeDevice) return "gpu_milli: must be 1 to 1000";
  if (*gpus > 1 && *milli != kWholeDevice) return "gpu_milli: must be 1000 for more than one GPU";
  DeviceAsk devices;
  if (fields.size() == kColumns) devices.kinds = KindsOf(fields[5]);
  if (*milli == kWholeDevice) {
    devices.count = static_cast<uint16_t>(*gpus);
  } else {
    devices.milli = static_cast<uint16_t>(*milli);
  }
  ask.devices = {std::move(devices)};
  return {};
}

std::string ReadTimes(const std::vector<std::string_view>& fields, TraceJob& out) {
  const auto created = ParseInteger(fields[8]);
  const auto deleted = ParseInteger(fields[9]);
  if (!created || !deleted) return "creation_time, deletion_time: must be whole seconds";
  const auto from = Seconds(static_cast<double>(*created));
  const auto until = Seconds(static_cast<double>(*deleted));
  if (*created < 0) return "creation_time: must not be negative";
  if (!from || !until) return "creation_time, deletion_time: must be below 290 years";
  if (*until < *from) return "out of order: deletion_time is before creation_time";
  out.job.submitted = conf::TimePoint(*from);
  out.run = *until - *from;
  return DefectOfTimes(out);
}

std::string ReadRow(const std::vector<std::string_view>& fields, bool timed, TraceJob& out) {
  if (fields.size() != kColumns && fields.size() != kColumnsWithoutTimes) {
    return fmt::format("{} fields, a row has {} or {}", fields.size(), kColumns, kColumnsWithoutTimes);
  }
  Role role;
  role.name = "pod";
  const auto cpu = ParseInteger(fields[1]);
  if (!cpu || *cpu < 0 || *cpu > io::kMostAmount) {
    return fmt::format("cpu_milli: must be a whole number from 0 to {}", io::kMostAmount);
  }
  const auto memory = ParseInteger(fields[2]);
  if (!memory || *memory < 0 || *memory > io::kMostAmount) {
    return fmt::format("memory_mib: must be a whole number from 0 to {}", io::kMostAmount);
  }
  role.ask.cpu_milli = *cpu;
  role.ask.memory_mib = *memory;
  if (std::string wrong = ReadDevices(fields, role.ask); !wrong.empty()) return wrong;
  if (fields[0].empty()) return "name: must not be empty";
  out.job.id = fields[0];
  out.job.queue = fields.size() == kColumns && !fields[6].empty() ? std::string(fields[6]) : "default";
  out.job.roles.push_back(std::move(role));
  return timed ? ReadTimes(fields, out) : std::string();
}

}  // namespace

Trace ReadOpenb(std::string_view text, const std::string& file) {
  Trace trace;
  ColumnOrder order(kOpenbColumns);
  std::vector<std::string_view> fields;
  io::ForEachLine(text, [&](std::string_view line, int number) {
    if (line.empty()) return;
    SplitAtCommas(line, fields);
    if (trace.report.lines == 0 && order.TakeHeader(fields)) return;
    ++trace.report.lines;
    TraceJob job;
    std::string wrong = order.Arrange(fields);
    const bool timed = fields.size() == kColumns && order.HasColumn("creation_time");
    if (wrong.empty()) wrong = ReadRow(fields, timed, job);
    if (!wrong.empty()) return LeaveOutRow(trace, file, number, line, wrong);
    job.line = number;
    trace.jobs.push_back(std::move(job));
  });
  SortBySubmission(trace.jobs);
  return trace;
}

}  // namespace scheduler::sim
