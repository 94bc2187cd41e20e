// Spend: tokens, money and time of devices by the UTC day of admission, tenant, key and model: what budgets
// are restored from,
// and what of a removed segment is carried on in its retention record.
//
// A request counts on the day on which it was admitted, as it was charged while the gateway ran, not on the
// day on which it ended. Bearers have no limits of their own, so their subjects, of which there is no bound,
// are one row of their tenant's. Not shared between threads.
#pragma once

#include <absl/container/flat_hash_map.h>
#include <absl/status/statusor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gateway/ledger/chain.h"
#include "gateway/ledger/parse.h"

namespace gateway::ledger {

// What a retention record says of its removal, but for the rows.
struct RetentionPart {
  uint64_t to_seq = 0;  // everything up to here was removed
  uint64_t part = 1;    // of `parts`, which follow each other; in force when the last one is there
  uint64_t parts = 1;
};
RetentionPart ReadRetention(std::string_view body);

struct SpendRow {
  int64_t day = 0;  // since 1970
  std::string tenant, key, model;
  std::string device{};           // the kind of what was held; empty: what requests used
  int64_t input = 0, output = 0;  // tokens
  int64_t cost_micro_usd = 0;
  int64_t device_us = 0;
};

int64_t DayOf(int64_t time_us);
// The day that a close counts on. Records of versions that did not say when the request was admitted count
// when it ended.
int64_t SpendDay(const CloseFacts& close, int64_t close_time_us);
// The key that it counts under.
std::string_view SpendKey(std::string_view key);

// The day under which spend of `day` can be added up with others' without any period of `today` or later
// seeing a difference; nothing for a day that is in no period any more.
std::optional<int64_t> FoldDay(int64_t day, int64_t today);

class Spend {
 public:
  void Add(const SpendRow& row);
  void Add(const CloseFacts& close, int64_t close_time_us);
  void AddDevices(const Record& record);
  // With days folded, those out of every period left out; ordered.
  std::vector<SpendRow> Carried(int64_t today) const;

 private:
  absl::flat_hash_map<std::string, SpendRow> rows_;  // by all that names one
  std::string name_;                                 // of the row asked for last
};

// What the closes of a segment spent, and what its retention records carry. Damaged lines are passed over;
// `audit verify` names them.
absl::StatusOr<Spend> SpendOf(const std::string& segment_path);

// The rows as the JSON array that a retention record's `spent` is, and back; none for what is no such array.
std::string RenderRows(const SpendRow* begin, const SpendRow* end);
std::vector<SpendRow> ReadRows(std::string_view retention_line);

}  // namespace gateway::ledger
