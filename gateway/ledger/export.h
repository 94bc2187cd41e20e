// Records out of the ledger, by time, tenant, model and kind, as JSON lines (each as it stands in the
// segments) or as CSV (RFC 4180, header first; text that a spreadsheet would take for a formula gets a
// leading apostrophe). Reads only, beside a running gateway, in any process.
//
// Resumable: a file that exists is continued after its last whole record, and what follows that is cut off.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "gateway/ledger/parse.h"

namespace gateway::ledger {

enum class ExportFormat { kJsonLines, kCsv };

struct ExportResult {
  uint64_t records = 0;   // written by this call
  uint64_t last_seq = 0;  // looked at; go on with from_seq = last_seq + 1
};

struct ExportOptions {
  ExportFormat format = ExportFormat::kJsonLines;
  uint64_t from_seq = 1;
  int64_t since_us = 0;
  int64_t until_us = std::numeric_limits<int64_t>::max();  // not included
  std::string tenant = {};                                 // it and everything below it; empty: all
  std::string model = {};                                  // empty: all
  std::vector<Kind> kinds = {};                            // empty: all
  // Stops when so many records were written, or looked at.
  uint64_t max_records = std::numeric_limits<uint64_t>::max();
  uint64_t max_seen = std::numeric_limits<uint64_t>::max();
  // Called now and then with what is done so far.
  std::function<void(const ExportResult&)> progress = {};
};

// Writes to `out`, which returns false to stop early (not an error).
absl::StatusOr<ExportResult> Export(const std::string& dir, const ExportOptions& options,
                                    const std::function<bool(std::string_view)>& out);

// Writes to the file at `path`, made when missing, continued when not.
absl::StatusOr<ExportResult> ExportToFile(const std::string& dir, const ExportOptions& options,
                                          const std::string& path);

// One CSV row with its line end, and the row of names that begins a file.
void AppendCsv(std::string* out, const Record& record);
std::string CsvHeader();

// What `usage` and other tables need too: a field quoted and guarded.
void AppendCsvField(std::string* out, std::string_view field);

}  // namespace gateway::ledger
