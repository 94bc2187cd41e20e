// Reads a line of a segment, for the index, the export, the sinks and recovery. Fields that a line lacks get their
// defaults; fields that this version does not know are skipped.
#pragma once

#include <absl/status/status.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "gateway/ledger/record.h"

namespace gateway::ledger {

struct Record {
  uint64_t seq = 0;
  int64_t time_us = 0;
  Kind kind = Kind::kAdmin;
  uint64_t open_seq = 0;
  int64_t open_time_us = 0;  // in a close: when the request was admitted; 0: unknown
  std::string request, client_request, tenant, key, model, api, client;
  bool stream = false;
  std::string reason, source, served_model, replica, prefill, limit, error;
  int64_t status = 0;
  int64_t input = 0, cached = 0, output = 0, cost_micro_usd = 0, bytes_in = 0, bytes_out = 0, attempts = 0;
  int64_t queue_us = -1, ttft_us = -1, itl_mean_us = -1, itl_max_us = -1, total_us = -1, overhead_us = -1;
  std::string action, actor, subject, detail;  // detail: JSON
  std::string job, device;
  int64_t until_us = 0, device_us = 0, held_us = 0, weight = 0;
  int64_t energy_mj = 0, energy_micro_usd = 0, co2_mg = 0;
  std::string part, text;
  std::string content_key, ciphertext;  // instead of `text`: the key's name, and the sealed text in base64
  std::string note;                     // not in the ledger: says why `text` is missing
  bool cut = false;
};

// The fields from which usage is summed up. Views into the line, or into a Record.
struct CloseFacts {
  std::string_view tenant, key, model, replica, api, reason;
  int64_t input = 0, cached = 0, output = 0, cost_micro_usd = 0;
  int64_t open_time_us = 0;
};
CloseFacts FactsOf(const Record& record);

// Reads them from the body of a close (chain.h's LineParts) in one pass without a parser, because a busy gateway
// writes thousands of closes a second. False if a text has escapes; RecordParser decodes those.
bool ReadCloseFacts(std::string_view body, CloseFacts* facts);

// Holds the parser's buffers; one per thread.
class RecordParser {
 public:
  RecordParser();
  ~RecordParser();

  // Fills `record`; InvalidArgument for a line that is not a record of a known kind.
  absl::Status Parse(std::string_view line, Record* record);

 private:
  struct Buffers;
  std::unique_ptr<Buffers> buffers_;
};

}  // namespace gateway::ledger
