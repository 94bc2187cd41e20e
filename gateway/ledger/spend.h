// Spend: tokens, money and device time by UTC day of admission, tenant, key and model. Budgets are restored from it,
// and retention records carry it for removed segments.
//
// A request counts on the day on which it was admitted, not on the day on which it ended: the running gateway charged
// it like that, too. Bearer tokens have no limits of their own, so all token subjects of a tenant, however many they
// are, share one row. Not shared between threads.
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

// A retention record, without its rows.
struct RetentionPart {
  uint64_t to_seq = 0;  // all records up to this one are removed
  uint64_t part = 1;    // of `parts`, which follow each other; they count only when the last one is written
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
// The day on which a close counts. Records of old versions have no time of admission: the end of the request counts.
int64_t SpendDay(const CloseFacts& close, int64_t close_time_us);
// The key under which it counts.
std::string_view SpendKey(std::string_view key);

// The earliest day into which `day` can be merged without a difference for any budget of `today` or later; none for a
// day that no budget needs.
std::optional<int64_t> FoldDay(int64_t day, int64_t today);

class Spend {
 public:
  void Add(const SpendRow& row);
  void Add(const CloseFacts& close, int64_t close_time_us);
  void AddDevices(const Record& record);
  // The rows in order. Merges days, and leaves out days that no budget needs.
  std::vector<SpendRow> Carried(int64_t today) const;

 private:
  absl::flat_hash_map<std::string, SpendRow> rows_;  // by all fields that identify a row
  std::string name_;                                 // of the last row
};

// The spend of a segment's closes and of its retention records. Skips damaged lines; `audit verify` reports them.
absl::StatusOr<Spend> SpendOf(const std::string& segment_path);

// Renders the rows as the JSON array `spent` of a retention record, and parses it; none for any other text.
std::string RenderRows(const SpendRow* begin, const SpendRow* end);
std::vector<SpendRow> ReadRows(std::string_view retention_line);

}  // namespace gateway::ledger
