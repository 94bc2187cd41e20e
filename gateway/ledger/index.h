// An index of the segments in SQLite, for questions of usage. It has sums for each minute and each hour, so that a
// month is answered as quickly as a day, and a row for every event. The parts of a minute at the ends of a window
// are read from the segments themselves. It also adds up the spend by day of admission, from which budgets are
// restored; keeps the feedback of applications; and finds the records of a request. For removed segments it uses
// their retention records. The index is derived from the segments: it is filled in the order of sequence numbers,
// follows retention, and is rebuilt if it is missing or damaged, has another version, or belongs to other segments.
//
// An Index belongs to one thread; several processes may use one ledger at once. It takes no lock of the
// ledger and never waits for the ledger's thread.
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
#include "gateway/ledger/feedback_table.h"
#include "gateway/ledger/parse.h"
#include "gateway/ledger/request_places.h"
#include "gateway/ledger/spend.h"
#include "gateway/ledger/tail.h"
#include "gateway/store/sqlite.h"

namespace gateway::ledger {

enum class UsageBy : uint8_t { kTenant, kKey, kModel, kReplica, kApi, kReason, kHour, kDay, kJob };
inline constexpr size_t kUsageBys = 9;
std::string_view Name(UsageBy by);
std::optional<UsageBy> ParseUsageBy(std::string_view name);

struct UsageQuery {
  std::vector<UsageBy> by = {};  // empty: one row of totals
  int64_t since_us = 0;
  int64_t until_us = std::numeric_limits<int64_t>::max();  // not included
  std::string tenant = {};                                 // this tenant and those below it; empty: all
  std::string model = {};                                  // empty: all
};

struct UsageRow {
  std::vector<std::string> group;  // in the order of `by`; an hour or a day as RFC 3339 of its beginning
  int64_t requests = 0;            // closed requests, also refused ones
  int64_t errors = 0;              // all errors
  int64_t failed = 0;              // errors that an engine or the gateway caused
  int64_t input = 0;               // tokens
  int64_t cached = 0;
  int64_t output = 0;
  int64_t cost_micro_usd = 0;
  std::map<std::string, int64_t> device_us = {};  // device time, by kind of device
  int64_t energy_mj = 0;                          // millijoules that devices of all kinds drew
  int64_t energy_micro_usd = 0;                   // the cost of this energy, by the tariffs of its time
  int64_t co2_mg = 0;                             // its emissions, by the tariffs of its time

  // Adds everything except the group.
  UsageRow& operator+=(const UsageRow& other);
};

// The sums of one hour for one combination of texts. Gateways exchange these.
inline constexpr size_t kUsageTexts = 8;
struct UsageCell {
  std::array<std::string, kUsageTexts> of{};  // tenant, key, model, replica, api, reason, job, device
  int64_t requests = 0;
  int64_t errors = 0;
  int64_t input = 0;
  int64_t cached = 0;
  int64_t output = 0;
  int64_t cost_micro_usd = 0;
  int64_t device_us = 0;
  int64_t energy_mj = 0;
  int64_t energy_micro_usd = 0;
  int64_t co2_mg = 0;

  bool operator==(const UsageCell&) const = default;
};

// The rows for `query` from the table or SELECT `from` of `db`, which must have the columns of the index's table
// `usage`; the table `text` has the names. Ordered by group.
absl::StatusOr<std::vector<UsageRow>> SelectUsage(sqlite::Database& db, const UsageQuery& query,
                                                  const std::string& from);

// The last interval with device records of a model's replicas, or of a job.
struct LastHeld {
  std::string model, job, device;
  int64_t from_us = 0;
  int64_t until_us = 0;
  int64_t held_us = 0;    // according to the records
  int64_t device_us = 0;  // the sum of their parts; smaller if a crash left some out
};

// The spans of the sums.
inline constexpr int64_t kMinute = 60;  // s
inline constexpr int64_t kHour = 3600;  // s
inline constexpr int64_t kSecondUs = 1'000'000;
inline constexpr int64_t kHourUs = kHour * kSecondUs;

// index.cc fills it, index_query.cc answers questions.
class Index {
 public:
  static absl::StatusOr<std::unique_ptr<Index>> Open(const std::string& ledger_dir);
  // Reserves disk room for its log, so that it can follow the ledger on a full disk. Best effort.
  void KeepRoom();
  // Removes the index; the next Open rebuilds it.
  static absl::Status Remove(const std::string& ledger_dir);

  // Applies up to `max_records` more records in one transaction. Returns their number; 0: there are no more.
  absl::StatusOr<size_t> Update(size_t max_records);
  absl::Status CatchUp();

  // Ordered by group; only applied records count.
  absl::StatusOr<std::vector<UsageRow>> Usage(const UsageQuery& query);

  // The hours (since 1970) whose sums may have changed after the record `seq`, in order of time.
  absl::StatusOr<std::vector<int64_t>> HoursChangedAfter(uint64_t seq);
  // The sums of an hour; only applied records count.
  absl::StatusOr<std::vector<UsageCell>> UsageOfHour(int64_t hour);
  // The first hour that has sums; none if no hour has.
  absl::StatusOr<std::optional<int64_t>> FirstHour();
  // The first record that the sums count; 1 if retention has removed nothing.
  absl::StatusOr<uint64_t> FirstSeq();

  // Like SpentSince below, for the applied records.
  absl::StatusOr<std::vector<SpendRow>> SpentSince(int64_t day);

  // Like LastDevices below, for the applied records.
  absl::StatusOr<std::vector<LastHeld>> LastDevices();

  uint64_t applied_seq() const { return applied_seq_; }
  // Only applied records count.
  FeedbackTable& feedback() { return *feedback_; }
  RequestPlaces& places() { return *places_; }

 private:
  // tenant, key, model, replica, api, reason, job, device: row ids of the table `text`.
  static constexpr size_t kDimensions = kUsageTexts;
  using Dimensions = std::array<int64_t, kDimensions>;
  struct Sum {
    int64_t requests = 0, errors = 0, input = 0, cached = 0, output = 0, cost = 0, device_us = 0;
    int64_t energy_mj = 0, energy_micro_usd = 0, co2_mg = 0;
    void Add(const CloseFacts& close);
    void Add(const Record& devices);
    void Add(const Sum& other);
  };
  // The key of a row of `usage`: sums never mix segments, so that a removed segment's rows can be deleted.
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
  // The key of a row of `spent`.
  struct SpentPlace {
    int64_t day = 0;     // of admission
    int64_t origin = 0;  // the segment with its closes, or the retention record that carries their sums
    std::array<int64_t, 4> of{};  // tenant, key, model, device
    friend bool operator==(const SpentPlace&, const SpentPlace&) = default;
    template <class H>
    friend H AbslHashValue(H h, const SpentPlace& place) {
      return H::combine(std::move(h), place.day, place.origin, place.of);
    }
  };
  using Spent = absl::flat_hash_map<SpentPlace, Sum>;
  // The sums of the records of one transaction.
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
  // Reads the fields of a close: views into `text` or into record_.
  bool ReadClose(const LineParts& parts, std::string_view text, CloseFacts* facts);
  absl::StatusOr<Dimensions> DimensionsOf(const std::array<std::string_view, kDimensions>& texts);
  absl::StatusOr<Dimensions> DimensionsOf(const CloseFacts& close);
  absl::StatusOr<Dimensions> DimensionsOf(const Record& devices);
  // Adds the sums of records up to `seq`.
  absl::Status AddUsages(const Usages& minutes, uint64_t seq);
  absl::Status InsertUsage(sqlite::Statement& into, const Row& row, const Sum& sums);
  // Adds and empties `spent`.
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
  std::unique_ptr<RequestPlaces> places_;
  std::unique_ptr<FeedbackTable> feedback_;
  std::optional<Tail> tail_;  // where Apply continues
  uint64_t applied_seq_ = 0;
  std::optional<sqlite::Statement> insert_event_, insert_text_, find_text_, add_usage_, insert_edge_,
      add_spent_, add_held_, set_changed_;
  absl::flat_hash_map<std::string, int64_t> text_ids_;
  // The last text that was looked up in each dimension: most records have the same texts as the previous one.
  struct LastText {
    std::string text;
    int64_t id = 0;
  };
  std::array<LastText, kDimensions> last_texts_;
};

// Opens the index, rebuilds it if necessary, and applies all records. Blocks; not for a shard.
absl::StatusOr<std::unique_ptr<Index>> OpenIndexUpToDate(const std::string& ledger_dir);

// Applies all records to the index and queries it; `last` becomes the number of the last applied record. Blocks; not
// for a shard.
absl::StatusOr<std::vector<UsageRow>> QueryUsage(const std::string& ledger_dir, const UsageQuery& query,
                                                 uint64_t* last = nullptr);

// The start values of budgets: the use of requests that were admitted since the beginning of `day`, by tenant, key
// and model, including removed segments. Blocks.
absl::StatusOr<std::vector<SpendRow>> SpentSince(const std::string& ledger_dir, conf::TimePoint day);

// Where the metering of devices continues: for each model or job, and each kind of device, if it has records.
// Blocks.
absl::StatusOr<std::vector<LastHeld>> LastDevices(const std::string& ledger_dir);

}  // namespace gateway::ledger
