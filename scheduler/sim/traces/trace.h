// Trace: the result of a trace reader: the jobs of a workload in the order of submission, and what was
// wrong with its rows.
//
// A row that is malformed, negative or out of order is left out and reported with file and line; whether that
// is acceptable is the caller's to say (`tidegate simulate jobs --strict` refuses). Readers are pure: text in,
// values out.
#pragma once

#include <charconv>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "scheduler/io/jobs_jsonl.h"
#include "scheduler/io/loaded.h"
#include "scheduler/work.h"

namespace scheduler::sim {

using TraceJob = io::TimedJob;

struct Trace {
  std::vector<TraceJob> jobs{};
  io::LineReport report{};
};

// Orders jobs by submission; those of one moment stay in the trace's order.
void SortBySubmission(std::vector<TraceJob>& jobs);

// `count` devices as members that each fill a node of `per_node`, with the remainder in a last one.
std::vector<Role> GangOf(uint32_t count, uint32_t per_node);

// Cuts a line at each comma, or at runs of blanks; views into the line. Quotes around a field with a comma are
// left out.
void SplitAtCommas(std::string_view line, std::vector<std::string_view>& fields);
void SplitAtBlanks(std::string_view line, std::vector<std::string_view>& fields);

// The order of the columns of a CSV file: its header's, or without one that of its format.
class ColumnOrder {
 public:
  // Names of the format's columns. They must outlive it.
  explicit ColumnOrder(std::span<const std::string_view> names) : names_(names) {}

  // Whether the fields are a header: they name the first column of the format. Other columns may be missing, and there
  // may be further ones.
  bool TakeHeader(const std::vector<std::string_view>& fields);
  bool HasColumn(std::string_view name) const;  // without a header: all
  // Puts a row's fields into the format's order, with empty fields for missing columns. Returns the defect of the row;
  // empty: none.
  std::string Arrange(std::vector<std::string_view>& fields) const;

 private:
  std::span<const std::string_view> names_;
  std::vector<size_t> places_{};  // of each column in a row; without a header none
  size_t width_ = 0;              // of the header
};

// The whole text as a number, or nothing. An integer may be written as 12 or 12.0; a real is finite.
std::optional<int64_t> ParseInteger(std::string_view text);
std::optional<double> ParseReal(std::string_view text);

// Seconds as a duration; absent where they do not fit into one (about 290 years).
std::optional<conf::Duration> Seconds(double seconds);

// The problem with a job's arrival or length, if a clock cannot represent it; empty: none.
std::string DefectOfTimes(const TraceJob& job);

// Leaves the row out of `trace` and says why; of a row that cannot be read, with what it says.
void LeaveOutRow(Trace& trace, const std::string& file, int line, std::string_view row, std::string_view why);
void LeaveOut(Trace& trace, const std::string& file, int line, std::string_view value, std::string message);

}  // namespace scheduler::sim
