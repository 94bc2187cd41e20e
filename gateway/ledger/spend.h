// Spend: tokens, money and device time by UTC day of admission, tenant, key and model. Budgets are restored
// from it, and retention records carry it for removed segments.
//
// A request counts on the day on which it was admitted, as it was charged while the gateway ran, not on the
// day on which it ended. Bearer tokens have no limits of their own, so their subjects, of which there are any
// number, share one row of their tenant. Not shared between threads.
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

// What a retention record says about the removal, besides the rows.
struct RetentionPart {
  uint64_t to_seq = 0;  // everything up to here was removed
  uint64_t part = 1;    // of `parts`, which follow each other; valid when the last one is there
  uint64_t parts = 1;
};
RetentionPart ReadRetention(std::string_view body);

struct SpendRow {
  int64_t day = 0;  // since 1970
  std::string tenant, key, model;
  std::string device{};           // the kind of device; empty: requests
  int64_t input = 0, output = 0;  // tokens
  int64_t cost_micro_usd = 0;
  int64_t device_us = 0;
};

int64_t DayOf(int64_t time_us);
// The day that a close counts on. Records of old versions without a time of admission count when the request
// ended.
int64_t SpendDay(const CloseFacts& close, int64_t close_time_us);
// The key that it counts under.
std::string_view SpendKey(std::string_view key);

// The earliest day that `day` can be merged into without a difference for any budget of `today` or later;
// nothing for a day that no budget needs.
std::optional<int64_t> FoldDay(int64_t day, int64_t today);

class Spend {
 public:
  void Add(const SpendRow& row);
  void Add(const CloseFacts& close, int64_t close_time_us);
  void AddDevices(const Record& record);
  // Ordered; days are merged, and days that no budget needs are left out.
  std::vector<SpendRow> Carried(int64_t today) const;

 private:
  absl::flat_hash_map<std::string, SpendRow> rows_;  // by all fields that identify a row
  std::string name_;                                 // of the row asked for last
};

// The spend of a segment's closes and of its retention records. Damaged lines are skipped; `audit verify`
// names them.
absl::StatusOr<Spend> SpendOf(const std::string& segment_path);

// The rows as the JSON array `spent` of a retention record, and back; none for anything else.
std::string RenderRows(const SpendRow* begin, const SpendRow* end);
std::vector<SpendRow> ReadRows(std::string_view retention_line);

}  // namespace gateway::ledger
