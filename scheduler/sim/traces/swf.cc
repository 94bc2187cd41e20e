#include "scheduler/sim/traces/swf.h"

#include <absl/container/flat_hash_set.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "scheduler/io/bounds.h"
#include "scheduler/io/lines.h"

namespace scheduler::sim {
namespace {

constexpr size_t kFields = 18;
constexpr int64_t kMostProcessors = 1 << 20;

// Places in a line, from 0.
enum Field : size_t {
  kNumber = 0,
  kSubmit = 1,
  kRun = 3,
  kAllocated = 4,
  kRequested = 7,
  kRequestedTime = 8,
  kUser = 11,
  kExecutable = 13,
  kQueue = 14,
  kPreceding = 16,
};

using Row = std::array<int64_t, kFields>;

std::string ParseRow(const std::vector<std::string_view>& fields, Row& row) {
  if (fields.size() != kFields) return fmt::format("{} fields, a line has {}", fields.size(), kFields);
  for (size_t i = 0; i < kFields; ++i) {
    const auto number = ParseReal(fields[i]);  // some archives give averages with decimals
    if (!number || std::abs(*number) > 1e15) return fmt::format("field {}: must be a number", i + 1);
    row[i] = static_cast<int64_t>(*number);
  }
  return {};
}

class Reader {
 public:
  Reader(const std::string& file, uint32_t per_node) : file_(&file), per_node_(per_node) {}

  void Line(std::string_view line, int number) {
    if (line.starts_with(';')) return Header(line);
    SplitAtBlanks(line, fields_);
    if (fields_.empty()) return;
    ++trace_.report.lines;
    Row row{};
    TraceJob job;
    std::string wrong = ParseRow(fields_, row);
    if (wrong.empty()) wrong = ReadRow(row, job);
    if (!wrong.empty()) return LeaveOutRow(trace_, *file_, number, line, wrong);
    job.line = number;
    trace_.jobs.push_back(std::move(job));
  }

  Trace Take() { return std::move(trace_); }

 private:
  void Header(std::string_view line) {
    constexpr std::string_view kStart = "UnixStartTime:";
    const size_t at = line.find(kStart);
    if (at == std::string_view::npos) return;
    SplitAtBlanks(line.substr(at + kStart.size()), fields_);
    const auto seconds = fields_.empty() ? std::nullopt : ParseInteger(fields_[0]);
    const auto start = seconds ? Seconds(static_cast<double>(*seconds)) : std::nullopt;
    if (start && conf::TimePoint(*start) >= io::kEarliest && conf::TimePoint(*start) <= io::kLatest) {
      start_ = conf::TimePoint(*start);
    }
  }

  std::string ReadRow(const Row& row, TraceJob& out) {
    if (row[kSubmit] < 0) return "field 2: the submit time must not be negative";
    if (row[kRun] < 0) return "field 4: the run time must not be negative";
    const int64_t processors = row[kRequested] > 0 ? row[kRequested] : row[kAllocated];
    if (processors < 1 || processors > kMostProcessors) {
      return fmt::format("fields 5 and 8: one must be 1 to {} processors", kMostProcessors);
    }
    const auto submit = Seconds(static_cast<double>(row[kSubmit]));
    const auto run = Seconds(static_cast<double>(row[kRun]));
    if (!submit || !run) return "fields 2 and 4: times must be below 290 years";
    if (*submit < last_submit_) {
      return fmt::format("out of order: submitted at {} s, after a line of {} s", row[kSubmit],
                         last_submit_ / std::chrono::seconds(1));
    }
    if (numbers_.contains(row[kNumber])) {
      return fmt::format("field 1: job {} was given before", row[kNumber]);
    }
    out.run = *run;
    Job& job = out.job;
    job.id = fmt::format("{}", row[kNumber]);
    job.submitted = start_ + std::min(*submit, 2 * (io::kLatest - io::kEarliest));
    job.user = fmt::format("user-{}", row[kUser]);
    if (row[kExecutable] >= 0) job.application = fmt::format("executable-{}", row[kExecutable]);
    job.queue = row[kQueue] < 0 ? "default" : fmt::format("queue-{}", row[kQueue]);
    job.roles = GangOf(static_cast<uint32_t>(processors), per_node_);
    if (row[kRequestedTime] > 0) job.estimate = Seconds(static_cast<double>(row[kRequestedTime]));
    if (row[kPreceding] > 0 && row[kPreceding] != row[kNumber] && numbers_.contains(row[kPreceding])) {
      job.after.push_back(fmt::format("{}", row[kPreceding]));
    }
    if (std::string wrong = DefectOfTimes(out); !wrong.empty()) return wrong;
    last_submit_ = *submit;
    numbers_.insert(row[kNumber]);
    return {};
  }

  const std::string* file_;
  uint32_t per_node_;
  Trace trace_;
  std::vector<std::string_view> fields_;
  conf::TimePoint start_{};
  conf::Duration last_submit_{};
  absl::flat_hash_set<int64_t> numbers_;
};

}  // namespace

Trace ReadSwf(std::string_view text, const std::string& file, uint32_t devices_per_node) {
  Reader reader(file, devices_per_node);
  io::ForEachLine(text, [&](std::string_view line, int number) { reader.Line(line, number); });
  return reader.Take();
}

}  // namespace scheduler::sim
