#include "scheduler/io/csv.h"

#include <fmt/format.h>

#include <algorithm>

#include "conf/text.h"

namespace scheduler::io {
namespace {

std::string_view Trimmed(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

// Takes a quoted field and the comma after it off the front of `rest`.
std::optional<std::string> TakeQuoted(std::string_view& rest) {
  std::string field;
  for (size_t i = 1; i < rest.size(); ++i) {
    if (rest[i] != '"') {
      field += rest[i];
    } else if (i + 1 < rest.size() && rest[i + 1] == '"') {
      field += rest[i++];
    } else {
      rest.remove_prefix(i + 1);
      if (!rest.empty() && rest.front() != ',') return std::nullopt;
      return field;
    }
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::vector<std::string>> SplitCsv(std::string_view line) {
  std::vector<std::string> fields;
  while (true) {
    if (line.starts_with('"')) {
      std::optional<std::string> field = TakeQuoted(line);
      if (!field) return std::nullopt;
      fields.push_back(std::move(*field));
    } else {
      const size_t end = std::min(line.find(','), line.size());
      fields.emplace_back(Trimmed(line.substr(0, end)));
      line.remove_prefix(end);
    }
    if (line.empty()) return fields;
    line.remove_prefix(1);  // the comma
  }
}

std::optional<size_t> CsvHeader::Find(std::string_view name) const {
  const auto at = std::ranges::find(names_, name);
  if (at == names_.end()) return std::nullopt;
  return static_cast<size_t>(at - names_.begin());
}

const std::string& CsvRow::Text(std::string_view column) const {
  static const std::string none;
  const std::optional<size_t> at = header_->Find(column);
  return at && *at < fields_.size() ? fields_[*at] : none;
}

int64_t CsvRow::Whole(std::string_view column, int64_t min, int64_t max) {
  const std::string& text = Text(column);
  const std::optional<int64_t> number = conf::ReadNumber<int64_t>(text);
  if (number && *number >= min && *number <= max) return *number;
  Fail(column, fmt::format("expected a whole number between {} and {}, found \"{}\"", min, max, text));
  return min;
}

void CsvRow::Fail(std::string_view column, std::string_view message) {
  if (!defect_.empty()) return;
  defect_ = fmt::format("{}: {}", column, message);
  value_ = Text(column);
}

}  // namespace scheduler::io
