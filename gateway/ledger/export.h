// Exports records of the ledger by time, tenant, model and kind, as JSON lines (exactly those of the segments) or
// as CSV (RFC 4180 with a header; text that a spreadsheet would take for a formula gets a leading apostrophe). Only
// reads; may run beside a gateway, in any process.
//
// An export can be resumed: it continues an existing file after its last whole record, and cuts off the rest.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "gateway/ledger/content_keys.h"
#include "gateway/ledger/parse.h"
#include "gateway/ledger/tail.h"

namespace gateway::ledger {

enum class ExportFormat { kJsonLines, kCsv };

struct ExportResult {
  uint64_t records = 0;   // written by this call
  uint64_t last_seq = 0;  // the last record that was read; continue with from_seq = last_seq + 1
  uint64_t shown = 0;     // written prompts and answers with readable text
};

struct ExportOptions {
  ExportFormat format = ExportFormat::kJsonLines;
  uint64_t from_seq = 1;
  int64_t since_us = 0;
  int64_t until_us = std::numeric_limits<int64_t>::max();  // not included
  std::string tenant = {};                                 // this tenant and those below it; empty: all
  std::string model = {};                                  // also of actions and feedback; empty: all
  std::vector<Kind> kinds = {};                            // empty: all
  // Stops after this many records were written (max_records) or read (max_seen).
  uint64_t max_records = std::numeric_limits<uint64_t>::max();
  uint64_t max_seen = std::numeric_limits<uint64_t>::max();
  // Replaces the sealed form of prompts and answers by their text, or by a `note` that says why there is none. The
  // line then differs from the one that was hashed. Null: they stay sealed.
  const ContentKeys* content = nullptr;
  // Called from time to time with the progress.
  std::function<void(const ExportResult&)> progress = {};
};

// An export in steps, so that other readers get a turn during a long search. Thread: one at a time.
class ExportSteps {
 public:
  static absl::StatusOr<ExportSteps> Begin(const std::string& dir, ExportOptions options);

  // Reads up to `max_seen` further records, and passes the wanted ones to `out` in at most one call. False: the
  // ledger has no more records, a bound of the options is reached, or `out` returned false.
  absl::StatusOr<bool> Step(uint64_t max_seen, const std::function<bool(std::string_view)>& out);

  const ExportResult& result() const { return result_; }

 private:
  void Take(const Tail::Entry& entry, std::string& text);
  ExportSteps(const std::string& dir, ExportOptions options, uint64_t from_seq)
      : options_(std::move(options)),
        tail_(dir, from_seq - 1),
        result_{.records = 0, .last_seq = from_seq - 1} {}

  ExportOptions options_;
  Tail tail_;
  std::unique_ptr<RecordParser> parser_ = std::make_unique<RecordParser>();
  Record record_;
  ExportResult result_;
  uint64_t seen_ = 0;
};

// Writes to `out`; if `out` returns false, the export stops without an error.
absl::StatusOr<ExportResult> Export(const std::string& dir, const ExportOptions& options,
                                    const std::function<bool(std::string_view)>& out);

// Writes to the file at `path`: creates or continues it.
absl::StatusOr<ExportResult> ExportToFile(const std::string& dir, const ExportOptions& options,
                                          const std::string& path);

// One CSV row with its line end, and the header row of a file.
void AppendCsv(std::string* out, const Record& record);
std::string CsvHeader();

// One field with its quotes and the guard against formulas; also for other tables, such as `usage`.
void AppendCsvField(std::string* out, std::string_view field);

}  // namespace gateway::ledger
