// How commands speak: tables for people, times and amounts, and who is asking.
#pragma once

#include <absl/status/status.h>

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace gateway::cli {

// Columns padded to their widest cell, two spaces between; numbers stand right. Widths count characters, not
// bytes.
class Table {
 public:
  struct Column {
    std::string title;
    bool number = false;
  };
  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}

  void Add(std::vector<std::string> row) { rows_.push_back(std::move(row)); }
  std::string Render() const;

 private:
  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

// Indented; bytes that are no UTF-8, as names of files and queues may have, are replaced.
std::string AsText(const nlohmann::ordered_json& json);

// "cli:" and the name of the user that runs the command: what the ledger says did it.
std::string Actor();

// Prints "tidegate: WHY" to standard error; the exit code that fits: kUsage for what the caller got wrong.
int Fail(const absl::Status& status);

}  // namespace gateway::cli
