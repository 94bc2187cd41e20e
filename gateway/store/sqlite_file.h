// SqliteFile: the store in one SQLite file, synchronously. sqlite_store.h gives it a thread and a queue.
//
// All objects are in one table whose row number is the version; so the table is also the list of changes.
// A removed object leaves a row without a body, so that followers see the removal; the last `kept_removals`
// changes' removals are kept. A transaction takes the file's write lock before it reads a version, so several
// processes may write at once.
//
// With `keeps_room`, a full disk takes some more changes: the write-ahead log has room of its own, and the
// file has free pages. Both are taken when the file is opened, and again while there is room.
//
// Thread: one. Every call may block on the disk, and for the busy timeout on another process' lock.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "gateway/store/sqlite.h"
#include "gateway/store/store.h"

namespace gateway::store {

inline constexpr int64_t kSqliteSchema = 1;

class SqliteFile {
 public:
  struct Options {
    std::string path;
    uint64_t kept_removals = 100'000;  // changes
    size_t page = 1'000;               // most changes that one call of Changes() returns
    conf::Duration busy_timeout = std::chrono::seconds(5);
    // Whether a store may begin here. If not, a file that is missing, or that holds nothing, is damaged.
    bool may_be_new = true;
    bool keeps_room = false;  // for changes on a full disk
  };

  // The schema that a file has, whatever this version knows. Also while another process uses the file.
  static absl::StatusOr<int64_t> SchemaOf(const std::string& path);

  // Makes the file, mode 0600, when it is missing. Refuses, and names the file: one that others may read
  // (FailedPrecondition), one that a newer version or another program made (FailedPrecondition), one that is
  // damaged or not a database (DataLoss).
  static absl::StatusOr<std::unique_ptr<SqliteFile>> Open(Options options);

  // The calls of Store.
  absl::StatusOr<std::optional<Object>> Get(const std::string& kind, const std::string& id);
  absl::StatusOr<Listing> List(const std::string& kind);
  absl::StatusOr<Listing> ListPage(const std::string& kind, const std::string& after, size_t limit);
  absl::StatusOr<ChangeList> Changes(const std::string& kind, uint64_t after);
  absl::StatusOr<Committed> Commit(const std::vector<Write>& writes, uint64_t epoch = 0);
  absl::StatusOr<Lead> Campaign(const std::string& holder, const std::string& about);
  absl::StatusOr<Lead> Leader();
  absl::Status Resign(const std::string& holder, uint64_t epoch);

  // Numbers up to this one count as used: for a store that continues another one.
  absl::Status SkipTo(uint64_t number);

  absl::StatusOr<uint64_t> LastNumber();
  // A number that another connection's commit changes, and this one's do not. Cheap: no read of the file.
  absl::StatusOr<int64_t> DataVersion();
  // OK: the file is still at its path. No other process would see writes to a removed file.
  absl::Status CheckInPlace() const;
  void SetBusyTimeout(conf::Duration timeout) { db_->SetBusyTimeout(timeout); }

 private:
  struct Sequence {
    uint64_t last = 0;
    uint64_t forgotten = 0;  // removals up to this number may be forgotten
  };

  SqliteFile(Options options, std::unique_ptr<sqlite::Database> db)
      : options_(std::move(options)), db_(std::move(db)) {}

  absl::Status CheckOrMakeSchema();
  absl::Status Prepare();
  absl::StatusOr<Sequence> ReadSequence();
  absl::StatusOr<uint64_t> VersionOf(const std::string& kind, const std::string& id);
  // Runs a bound statement that lists objects.
  absl::StatusOr<Listing> ReadListing(sqlite::Statement& list);
  absl::StatusOr<Committed> WriteAll(const std::vector<Write>& writes);
  // The lead of the last holder; epoch 0: no gateway has ever led.
  absl::StatusOr<Lead> ReadLead();
  absl::Status WriteLead(const Lead& lead);
  // OK, or why a change of that epoch is refused.
  absl::Status CheckEpoch(uint64_t epoch);
  // Runs `work` in a transaction, which it commits.
  template <class Result>
  absl::StatusOr<Result> InTransaction(const std::function<absl::StatusOr<Result>()>& work);
  absl::Status Forget(Sequence& sequence);
  void KeepRoom();
  absl::Status FreePages();
  void Rollback();

  const Options options_;
  std::unique_ptr<sqlite::Database> db_;
  uint32_t commits_ = 0;             // since the room was checked
  uint64_t device_ = 0, inode_ = 0;  // of the file that was opened
  std::optional<sqlite::Statement> get_, list_, list_all_, list_page_, changes_, put_, version_, sequence_,
      set_sequence_, forget_, data_version_, lead_, set_lead_;
};

}  // namespace gateway::store
