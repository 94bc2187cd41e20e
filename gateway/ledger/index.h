// An SQLite file over the segments, for questions of usage: the usage of each minute and of each hour summed
// up, so that a month is as quick to ask for as a day, and a row for every event. What a question cuts off of
// a minute is read from the segment itself. What budgets are restored from is summed up beside it, by days of
// admission, and carried on over removed segments by what their retention records say. It holds nothing of
// its own: it is filled by sequence number,
// forgets what retention removed, and is built anew when it is missing, damaged, of another version or over
// other segments.
//
// An Index belongs to one thread; several, in several processes, may be open on one ledger. No lock of the
// ledger is needed and its thread is never waited for.
#pragma once

#include <absl/container/flat_hash_map.h>
#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <array>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "conf/time.h"
#include "gateway/ledger/parse.h"
#include "gateway/ledger/spend.h"
#include "gateway/ledger/tail.h"
#include "gateway/store/sqlite.h"

namespace gateway::ledger {

enum class UsageBy : uint8_t { kTenant, kKey, kModel, kReplica, kApi, kReason, kHour, kDay, kJob };
inline constexpr size_t kUsageBys = 9;
std::string_view Name(UsageBy by);
std::optional<UsageBy> ParseUsageBy(std::string_view name);

struct UsageQuery {
  std::vector<UsageBy> by = {};  // none: one row of totals
  int64_t since_us = 0;
  int64_t until_us = std::numeric_limits<int64_t>::max();  // not included
  std::string tenant = {};                                 // it and everything below it; empty: all
  std::string model = {};                                  // empty: all
};

struct UsageRow {
  std::vector<std::string> group;  // as `by`; an hour or day as RFC 3339 of its begin
  int64_t requests = 0;            // closed, refused ones too
  int64_t errors = 0;
  int64_t input = 0;  // tokens
  int64_t cached = 0;
  int64_t output = 0;
  int64_t cost_micro_usd = 0;
  std::map<std::string, int64_t> device_us = {};  // held, by the devices' kind
};

// The last interval of which there are records of what a model's replicas, or a job, held.
struct LastHeld {
  std::string model, job, device;
  int64_t from_us = 0;
  int64_t until_us = 0;
  int64_t held_us = 0;    // as the records say
  int64_t device_us = 0;  // what their parts come to; less, where a death came between them
};

// Of which usage is summed up.
inline constexpr int64_t kMinute = 60;  // s
inline constexpr int64_t kHour = 3600;  // s
inline constexpr int64_t kSecondUs = 1'000'000;

// What it is filled with is index.cc's, what it is asked index_query.cc's.
class Index {
 public:
  static absl::StatusOr<std::unique_ptr<Index>> Open(const std::string& ledger_dir);
  // So that the next Open makes it anew.
  static absl::Status Remove(const std::string& ledger_dir);

  // Applies up to `max_records` more records in one transaction; how many it did, 0 when there are no more.
  absl::StatusOr<size_t> Update(size_t max_records);
  absl::Status CatchUp();

  // Ordered by group. What is not yet applied is not in it.
  absl::StatusOr<std::vector<UsageRow>> Usage(const UsageQuery& query);

  // As SpentSince below, of what is applied.
  absl::StatusOr<std::vector<SpendRow>> SpentSince(int64_t day);

  // As LastDevices below, of what is applied.
  absl::StatusOr<std::vector<LastHeld>> LastDevices();

  uint64_t applied_seq() const { return applied_seq_; }

 private:
  // tenant, key, model, replica, api, reason, job, device: numbers in the table `text`.
  static constexpr size_t kDimensions = 8;
  using Dimensions = std::array<int64_t, kDimensions>;
  struct Sum {
    int64_t requests = 0, errors = 0, input = 0, cached = 0, output = 0, cost = 0, device_us = 0;
    void Add(const CloseFacts& close);
    void Add(const Sum& other);
  };
  // What a row of `usage` is of: sums never mix segments, so that those of a removed one can go with it.
  struct Row {
    int64_t seconds = 0;  // the span: a minute or an hour
    int64_t begin = 0;    // in spans since 1970
    int64_t segment = 0;
    Dimensions of{};
    friend bool operator==(const Row&, const Row&) = default;
    template <class H>
    friend H AbslHashValue(H h, const Row& row) {
      return H::combine(std::move(h), row.seconds, row.begin, row.segment, row.of);
    }
  };
  using Usages = absl::flat_hash_map<Row, Sum>;
  // What a row of `spent` is of.
  struct SpentPlace {
    int64_t day = 0;              // of admission
    int64_t origin = 0;           // the segment of its closes, or the retention record that carries them on
    std::array<int64_t, 4> of{};  // tenant, key, model, device
    friend bool operator==(const SpentPlace&, const SpentPlace&) = default;
    template <class H>
    friend H AbslHashValue(H h, const SpentPlace& place) {
      return H::combine(std::move(h), place.day, place.origin, place.of);
    }
  };
  using Spent = absl::flat_hash_map<SpentPlace, Sum>;
  // Of the records that a transaction applies.
  struct Sums {
    Usages minutes;
    Spent spent;
  };

  Index(std::string dir, std::unique_ptr<sqlite::Database> db) : dir_(std::move(dir)), db_(std::move(db)) {}
  static absl::StatusOr<std::unique_ptr<Index>> OpenOnce(const std::string& dir);
  absl::Status Prepare();
  absl::StatusOr<bool> Matches();
  absl::Status InTransaction(std::string_view begin, const std::function<absl::Status()>& work);
  absl::StatusOr<size_t> Apply(size_t max_records);
  absl::Status ApplyRecord(const Tail::Entry& entry, Sums* sums);
  absl::Status ApplyDevices(const Tail::Entry& entry, Sums* sums);
  absl::Status ApplyRetention(const LineParts& parts, std::string_view text, Spent* spent);
  // The facts of a close, views into `text` or into record_.
  bool ReadClose(const LineParts& parts, std::string_view text, CloseFacts* facts);
  absl::StatusOr<Dimensions> DimensionsOf(const std::array<std::string_view, kDimensions>& texts);
  absl::StatusOr<Dimensions> DimensionsOf(const CloseFacts& close);
  absl::StatusOr<Dimensions> DimensionsOf(const Record& devices);
  absl::Status AddUsages(const Usages& minutes);
  absl::Status InsertUsage(sqlite::Statement& into, const Row& row, const Sum& sums);
  // Leaves `spent` empty.
  absl::Status AddSpent(Spent* spent);
  absl::Status InsertSpent(int64_t pending, const SpentPlace& place, const Sum& sums);
  absl::Status Forget();
  // Fills the table `edge` with the closes of [since_us, until_us), a part of a minute.
  absl::Status ReadEdge(int64_t since_us, int64_t until_us);
  absl::StatusOr<std::vector<UsageRow>> Select(const UsageQuery& query);
  absl::StatusOr<int64_t> TextId(std::string_view text);
  absl::Status ReadApplied();
  absl::StatusOr<std::string> Meta(std::string_view name);
  absl::Status SetMeta(std::string_view name, std::string_view value);

  std::string dir_;
  std::unique_ptr<sqlite::Database> db_;
  RecordParser parser_;
  Record record_;
  std::optional<Tail> tail_;  // where Apply goes on
  uint64_t applied_seq_ = 0;
  std::optional<sqlite::Statement> insert_event_, insert_text_, find_text_, add_usage_, insert_edge_,
      add_spent_, add_held_;
  absl::flat_hash_map<std::string, int64_t> text_ids_;
};

// Brings the index up to the present end of the ledger and asks it. Blocks; not for a shard.
absl::StatusOr<std::vector<UsageRow>> QueryUsage(const std::string& ledger_dir, const UsageQuery& query);

// What budgets start from: what the requests admitted since the begin of `day` have used, by tenant, key and
// model, those of removed segments included. Blocks likewise.
absl::StatusOr<std::vector<SpendRow>> SpentSince(const std::string& ledger_dir, conf::TimePoint day);

// Where whoever meters devices goes on: one for each model and kind, and for each job and kind, as far as
// records are kept. Blocks likewise.
absl::StatusOr<std::vector<LastHeld>> LastDevices(const std::string& ledger_dir);

}  // namespace gateway::ledger
