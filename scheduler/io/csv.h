// Comma-separated values with a header line, row by row (RFC 4180, except that a row is one line).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace scheduler::io {

// The fields of one line, quotes taken off and blanks around unquoted fields dropped. Nothing when a quote
// does not end.
std::optional<std::vector<std::string>> SplitCsv(std::string_view line);

// The names of the columns: the first line of a file.
class CsvHeader {
 public:
  explicit CsvHeader(std::vector<std::string> names) : names_(std::move(names)) {}

  size_t size() const { return names_.size(); }
  const std::string& operator[](size_t column) const { return names_[column]; }
  std::optional<size_t> Find(std::string_view name) const;
  bool Has(std::string_view name) const { return Find(name).has_value(); }

 private:
  std::vector<std::string> names_;
};

// One row under its header; keeps the first thing that is wrong with it.
class CsvRow {
 public:
  CsvRow(const CsvHeader& header, std::vector<std::string> fields)
      : header_(&header), fields_(std::move(fields)) {}

  // Empty for a column that the file does not have.
  const std::string& Text(std::string_view column) const;
  // A whole number between the bounds; otherwise notes a defect, and returns `min`.
  int64_t Whole(std::string_view column, int64_t min, int64_t max);
  void Fail(std::string_view column, std::string_view message);

  const std::string& defect() const { return defect_; }  // "gpu: expected …"; empty: none
  const std::string& value() const { return value_; }    // its text

 private:
  const CsvHeader* header_;
  std::vector<std::string> fields_;
  std::string defect_;
  std::string value_;
};

}  // namespace scheduler::io
