// How commands print: tables for people, counts with their noun, errors; and the name of the user that runs
// the command.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "conf/shown.h"

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

  // Without characters that a terminal would obey.
  void Add(std::vector<std::string> row);
  std::string Render() const;

 private:
  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

using conf::Counted;

// Indented; bytes that are no UTF-8, as names of files and queues may have, are replaced.
std::string AsText(const nlohmann::ordered_json& json);

// A value as a cell of a table: "-" for null.
std::string TextOf(const nlohmann::ordered_json& value);

// A word of the API as people read it: "in force" for in_force.
std::string WordsOf(const nlohmann::ordered_json& value);

// The actor in the ledger: "cli:" and the name of the user who runs the command, also behind sudo.
std::string Actor();

// Standard output. The first error is kept, because a stream forgets its reason. False: it could not be written.
bool WriteOutput(std::string_view text);
bool OutputWritten();  // all that was printed before
// The status of such an output. Fail() does not print it: CheckOutput() does, at the end of every command.
absl::Status OutputError();
// Prints the reason, by default that of the first error, and returns kFailed.
int OutputFailed(int error = 0);
// `code`, unless that was kOk and the output could not be written.
int CheckOutput(int code);

// conf::Visible for each line: the lines of a message are its own.
std::string VisibleLines(std::string_view text);

// Prints "tidegate: WHY" to standard error. Returns kUsage for mistakes of the caller, else kFailed.
int Fail(const absl::Status& status);

// The exit code of a command that ends here: the answer is an error, or was printed as JSON. Nothing: its text is to be
// printed.
std::optional<int> FailOrPrintJson(const absl::StatusOr<nlohmann::ordered_json>& answer, bool json);
std::optional<int> FailOrPrintJson(const absl::StatusOr<std::vector<nlohmann::ordered_json>>& rows,
                                   bool json);

}  // namespace gateway::cli
