#include "gateway/store/sqlite_file.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "conf/text.h"
#include "gateway/net/files.h"

namespace gateway::store {
namespace {

constexpr int64_t kApplicationId = 0x54474154;  // "TGAT", in the file's header
constexpr int64_t kSchema = kSqliteSchema;

// The room of the log. It is copied into the file well before it is full, and then written from its beginning again.
constexpr int64_t kLogRoom = int64_t{4} << 20;
constexpr int kLogPages = 512;       // of 4 KiB, before it is copied
constexpr int kFileStep = 1 << 20;   // bytes by which the file grows
constexpr int64_t kFreePages = 128;  // fewer are filled up ...
constexpr int kFreeBytes = 1 << 20;  // by so much
constexpr uint32_t kCommitsALook = 64;

constexpr char kMakeSchema[] =
    "CREATE TABLE objects (version INTEGER PRIMARY KEY, kind TEXT NOT NULL, id TEXT NOT NULL, body TEXT, "
    "UNIQUE (kind, id));"
    "CREATE INDEX removed ON objects (version) WHERE body IS NULL;"
    "CREATE TABLE sequence (last INTEGER NOT NULL, forgotten INTEGER NOT NULL);"
    "INSERT INTO sequence (last, forgotten) VALUES (0, 0);"
    "PRAGMA application_id = 1413955924; PRAGMA user_version = 1;";
static_assert(kApplicationId == 1413955924 && kSchema == 1);

int64_t Signed(uint64_t number) {
  return static_cast<int64_t>(number);
}
uint64_t Unsigned(int64_t number) {
  return static_cast<uint64_t>(number);
}

// SQLite would make it readable by others. An existing file is not changed.
absl::Status MakeFile(const std::string& path) {
  if (mknod(path.c_str(), S_IFREG | 0600, 0) == 0) return net::SyncParent(path);
  if (errno == EEXIST) return absl::OkStatus();
  if (errno == ENOSPC || errno == EDQUOT)
    return absl::ResourceExhaustedError(fmt::format("{}: the disk is full; free space on it", path));
  return net::SystemError("make", path, errno);
}

// Without opening it: closing it again would release the locks that SQLite holds.
absl::Status CheckFile(const std::string& path, bool may_be_new) {
  struct stat found{};
  if (lstat(path.c_str(), &found) != 0) {
    if (errno == ENOENT) return absl::DataLossError(fmt::format("{}: is missing", path));
    return net::SystemError("look at", path, errno);
  }
  if (!S_ISREG(found.st_mode)) {
    return absl::FailedPreconditionError(
        fmt::format("{}: is not a regular file; move it away, or choose another state_dir", path));
  }
  if ((found.st_mode & 077) != 0) {
    return absl::FailedPreconditionError(
        fmt::format("{}: mode {:o} lets other users read or change it; run chmod 600 {}", path,
                    found.st_mode & 07777, path));
  }
  // SQLite would drop the log of changes beside it.
  if (found.st_size == 0 && !may_be_new) return absl::DataLossError(fmt::format("{}: is empty", path));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<SqliteFile>> SqliteFile::Open(Options options) {
  if (options.may_be_new) {
    if (absl::Status made = MakeFile(options.path); !made.ok()) return made;
  }
  if (absl::Status file = CheckFile(options.path, options.may_be_new); !file.ok()) return file;
  auto db = sqlite::Database::Open(options.path, sqlite::Database::Sync::kFull);
  if (!db.ok()) return db.status();
  std::unique_ptr<SqliteFile> file(new SqliteFile(std::move(options), *std::move(db)));
  file->SetBusyTimeout(file->options_.busy_timeout);
  struct stat opened{};
  if (stat(file->options_.path.c_str(), &opened) == 0) {
    file->device_ = opened.st_dev;
    file->inode_ = opened.st_ino;
  }
  if (absl::Status schema = file->CheckOrMakeSchema(); !schema.ok()) return schema;
  if (absl::Status prepared = file->Prepare(); !prepared.ok()) return prepared;
  file->KeepRoom();
  return file;
}

absl::StatusOr<int64_t> SqliteFile::SchemaOf(const std::string& path) {
  if (absl::Status file = CheckFile(path, false); !file.ok()) return file;
  const auto db = sqlite::Database::Open(path, sqlite::Database::Sync::kFull);
  if (!db.ok()) return db.status();
  const absl::StatusOr<int64_t> application = (*db)->QueryInt("PRAGMA application_id");
  if (!application.ok()) return application.status();
  if (*application != kApplicationId)
    return absl::FailedPreconditionError(fmt::format("{}: is a database of another program", path));
  return (*db)->QueryInt("PRAGMA user_version");
}

absl::Status SqliteFile::CheckOrMakeSchema() {
  const std::string bounds =
      fmt::format("PRAGMA journal_size_limit = {}; PRAGMA wal_autocheckpoint = {}", kLogRoom, kLogPages);
  if (absl::Status bounded = db_->Execute(bounds); !bounded.ok()) return bounded;
  absl::StatusOr<int64_t> tables = db_->QueryInt("SELECT count(*) FROM sqlite_master");
  if (!tables.ok()) return tables.status();
  if (*tables == 0 && !options_.may_be_new)
    return absl::DataLossError(fmt::format("{}: holds nothing", options_.path));
  if (*tables == 0) {
    if (absl::Status begun = db_->Execute("BEGIN IMMEDIATE"); !begun.ok()) return begun;
    tables = db_->QueryInt("SELECT count(*) FROM sqlite_master");  // another process may have been first
    absl::Status made = tables.status();
    if (made.ok() && *tables == 0) made = db_->Execute(kMakeSchema);
    if (made.ok()) made = db_->Execute("COMMIT");
    if (!made.ok()) {
      Rollback();
      return made;
    }
  }
  const absl::StatusOr<int64_t> application = db_->QueryInt("PRAGMA application_id");
  if (!application.ok()) return application.status();
  if (*application != kApplicationId) {
    return absl::FailedPreconditionError(fmt::format(
        "{}: is a database of another program; move it away, or choose another state_dir", options_.path));
  }
  const absl::StatusOr<int64_t> schema = db_->QueryInt("PRAGMA user_version");
  if (!schema.ok()) return schema.status();
  if (*schema != kSchema) {
    return absl::FailedPreconditionError(fmt::format(
        "{}: has schema {}, and tidegate {} knows schema {} only; run the version that wrote it or a later "
        "one, or restore the backup made before the upgrade",
        options_.path, *schema, TIDEGATE_VERSION, kSchema));
  }
  absl::StatusOr<sqlite::Statement> check = db_->Prepare("PRAGMA quick_check(1)");
  if (!check.ok()) return check.status();
  const absl::StatusOr<bool> row = check->Step();
  if (!row.ok()) return row.status();
  std::string found = *row ? check->Text(0) : "it cannot be checked";
  if (found != "ok") {
    std::ranges::replace(found, '\n', ' ');
    return absl::DataLossError(fmt::format("{}: is damaged ({})", options_.path, found));
  }
  return absl::OkStatus();
}

// Best effort: without room there is none to keep, and the next change may be refused.
void SqliteFile::KeepRoom() {
  if (!options_.keeps_room) return;
  commits_ = 0;
  db_->KeepRoom(kLogRoom, kFileStep).IgnoreError();
  FreePages().IgnoreError();
}

// A table that is dropped leaves its pages to others. Two transactions: pages must have been written once to
// have their room.
absl::Status SqliteFile::FreePages() {
  const absl::StatusOr<int64_t> free = db_->QueryInt("PRAGMA freelist_count");
  if (!free.ok() || *free >= kFreePages) return free.status();
  const absl::Status made =
      db_->Execute(fmt::format("BEGIN IMMEDIATE; CREATE TABLE IF NOT EXISTS room (bytes BLOB); "
                               "INSERT INTO room VALUES (zeroblob({})); COMMIT",
                               kFreeBytes));
  Rollback();
  const absl::Status dropped = db_->Execute("DROP TABLE IF EXISTS room");
  return made.ok() ? dropped : made;
}

absl::Status SqliteFile::Prepare() {
  const std::pair<std::optional<sqlite::Statement>*, const char*> statements[] = {
      {&get_, "SELECT version, body FROM objects WHERE kind = ? AND id = ? AND body IS NOT NULL"},
      {&list_, "SELECT kind, id, version, body FROM objects WHERE kind = ? AND body IS NOT NULL ORDER BY id"},
      {&list_all_, "SELECT kind, id, version, body FROM objects WHERE body IS NOT NULL ORDER BY kind, id"},
      {&list_page_,
       "SELECT kind, id, version, body FROM objects WHERE kind = ? AND id > ? AND body IS NOT NULL ORDER BY "
       "id "
       "LIMIT ?"},
      {&changes_, "SELECT version, kind, id, body FROM objects WHERE version > ? ORDER BY version LIMIT ?"},
      {&put_, "INSERT OR REPLACE INTO objects (version, kind, id, body) VALUES (?, ?, ?, ?)"},
      {&version_, "SELECT version FROM objects WHERE kind = ? AND id = ? AND body IS NOT NULL"},
      {&sequence_, "SELECT last, forgotten FROM sequence"},
      {&set_sequence_, "UPDATE sequence SET last = ?, forgotten = ?"},
      {&forget_, "DELETE FROM objects WHERE body IS NULL AND version <= ?"},
      {&data_version_, "PRAGMA data_version"}};
  for (const auto& [into, sql] : statements) {
    absl::StatusOr<sqlite::Statement> statement = db_->Prepare(sql);
    if (!statement.ok()) {
      return absl::DataLossError(fmt::format("{}; its tables are not those of schema {}",
                                             conf::Std(statement.status().message()), kSchema));
    }
    *into = *std::move(statement);
  }
  return absl::OkStatus();
}

absl::StatusOr<SqliteFile::Sequence> SqliteFile::ReadSequence() {
  const absl::StatusOr<bool> row = sequence_->Step();
  Sequence sequence;
  if (row.ok() && *row) sequence = {Unsigned(sequence_->Int(0)), Unsigned(sequence_->Int(1))};
  sequence_->Reset();
  if (!row.ok()) return row.status();
  if (!*row) {
    return absl::DataLossError(fmt::format("{}: its sequence of changes is gone", options_.path));
  }
  return sequence;
}

absl::Status SqliteFile::SkipTo(uint64_t number) {
  const absl::StatusOr<Sequence> sequence = ReadSequence();
  if (!sequence.ok()) return sequence.status();
  if (sequence->last >= number) return absl::OkStatus();
  return set_sequence_->Bind(1, Signed(number)).Bind(2, Signed(number)).Run();
}

absl::StatusOr<uint64_t> SqliteFile::LastNumber() {
  const absl::StatusOr<Sequence> sequence = ReadSequence();
  if (!sequence.ok()) return sequence.status();
  return sequence->last;
}

absl::StatusOr<int64_t> SqliteFile::DataVersion() {
  const absl::StatusOr<bool> row = data_version_->Step();
  const int64_t version = row.ok() && *row ? data_version_->Int(0) : 0;
  data_version_->Reset();
  if (!row.ok()) return row.status();
  return version;
}

absl::Status SqliteFile::CheckInPlace() const {
  struct stat now{};
  const std::string& path = options_.path;
  const auto lost = [&path](std::string_view how) {
    return absl::DataLossError(
        fmt::format("{}: {} while the gateway runs; put the file back, or restart the gateway to use the one "
                    "that is there",
                    path, how));
  };
  if (stat(path.c_str(), &now) != 0)
    return errno == ENOENT ? lost("was removed") : net::SystemError("look at", path, errno);
  if (now.st_dev != device_ || now.st_ino != inode_) return lost("was replaced by another file");
  return now.st_size == 0 ? lost("was emptied") : absl::OkStatus();
}

absl::StatusOr<std::optional<Object>> SqliteFile::Get(const std::string& kind, const std::string& id) {
  get_->Bind(1, std::string_view(kind)).Bind(2, std::string_view(id));
  const absl::StatusOr<bool> row = get_->Step();
  std::optional<Object> found;
  if (row.ok() && *row) found = Object{kind, id, Unsigned(get_->Int(0)), get_->Text(1)};
  get_->Reset();
  if (!row.ok()) return row.status();
  return found;
}

absl::StatusOr<Listing> SqliteFile::List(const std::string& kind) {
  sqlite::Statement& list = kind.empty() ? *list_all_ : *list_;
  if (!kind.empty()) list.Bind(1, std::string_view(kind));
  return ReadListing(list);
}

absl::StatusOr<Listing> SqliteFile::ListPage(const std::string& kind, const std::string& after,
                                             size_t limit) {
  list_page_->Bind(1, std::string_view(kind)).Bind(2, std::string_view(after)).Bind(3, Signed(limit));
  return ReadListing(*list_page_);
}

absl::StatusOr<Listing> SqliteFile::ReadListing(sqlite::Statement& list) {
  if (absl::Status begun = db_->Execute("BEGIN"); !begun.ok()) {
    list.Reset();
    return begun;
  }
  Listing listing;
  const absl::Status read = [&]() -> absl::Status {
    const absl::StatusOr<Sequence> sequence = ReadSequence();
    if (!sequence.ok()) return sequence.status();
    listing.number = sequence->last;
    while (true) {
      const absl::StatusOr<bool> row = list.Step();
      if (!row.ok()) return row.status();
      if (!*row) return absl::OkStatus();
      listing.objects.push_back({list.Text(0), list.Text(1), Unsigned(list.Int(2)), list.Text(3)});
    }
  }();
  list.Reset();
  Rollback();
  if (!read.ok()) return read;
  return listing;
}

absl::StatusOr<ChangeList> SqliteFile::Changes(const std::string& kind, uint64_t after) {
  if (absl::Status begun = db_->Execute("BEGIN"); !begun.ok()) return begun;
  ChangeList list;
  const absl::Status read = [&]() -> absl::Status {
    const absl::StatusOr<Sequence> sequence = ReadSequence();
    if (!sequence.ok()) return sequence.status();
    if (after < sequence->forgotten) {
      return absl::OutOfRangeError(
          fmt::format("{}: removals up to change {} are forgotten, and changes after {} were asked for",
                      options_.path, sequence->forgotten, after));
    }
    if (after > sequence->last) {
      return absl::OutOfRangeError(fmt::format(
          "{}: has {} changes, and those after {} were asked for; it is another store or an older "
          "copy of it",
          options_.path, sequence->last, after));
    }
    changes_->Bind(1, Signed(after)).Bind(2, Signed(options_.page));
    list.number = after;
    size_t rows = 0;
    while (true) {
      const absl::StatusOr<bool> row = changes_->Step();
      if (!row.ok()) return row.status();
      if (!*row) break;
      ++rows;
      list.number = Unsigned(changes_->Int(0));
      if (changes_->Text(1) != kind) continue;
      list.changes.push_back(
          {list.number, changes_->Text(2),
           changes_->IsNull(3) ? std::nullopt : std::optional<std::string>(changes_->Text(3))});
    }
    list.more = rows == options_.page && list.number < sequence->last;
    if (!list.more) list.number = sequence->last;
    return absl::OkStatus();
  }();
  changes_->Reset();
  Rollback();
  if (!read.ok()) return read;
  return list;
}

absl::StatusOr<uint64_t> SqliteFile::VersionOf(const std::string& kind, const std::string& id) {
  version_->Bind(1, std::string_view(kind)).Bind(2, std::string_view(id));
  const absl::StatusOr<bool> row = version_->Step();
  const uint64_t version = row.ok() && *row ? Unsigned(version_->Int(0)) : 0;
  version_->Reset();
  if (!row.ok()) return row.status();
  return version;
}

template <class Result>
absl::StatusOr<Result> SqliteFile::InTransaction(const std::function<absl::StatusOr<Result>()>& work) {
  if (absl::Status begun = db_->Execute("BEGIN IMMEDIATE"); !begun.ok()) return begun;
  absl::StatusOr<Result> done = work();
  if (!done.ok()) {
    Rollback();
    return done;
  }
  const absl::Status committed = db_->Execute("COMMIT");
  if (committed.ok()) return done;
  Rollback();
  // A full disk stops a commit before its last record. After any other failure, a restart may find it whole.
  if (absl::IsResourceExhausted(committed)) return committed;
  return absl::UnknownError(
      fmt::format("{}; whether the change was kept is not known: read it before trying again",
                  conf::Std(committed.message())));
}

absl::StatusOr<Committed> SqliteFile::Commit(const std::vector<Write>& writes, uint64_t epoch) {
  if (absl::Status checked = CheckWrites(writes); !checked.ok()) return checked;
  absl::StatusOr<Committed> written = InTransaction<Committed>([&]() -> absl::StatusOr<Committed> {
    if (absl::Status leads = CheckEpoch(epoch); !leads.ok()) return leads;
    return WriteAll(writes);
  });
  if (written.ok() && ++commits_ >= kCommitsALook) KeepRoom();
  return written;
}

// The file belongs to one process, so the holder that asks is the running one: any earlier leader has ended.
absl::StatusOr<Lead> SqliteFile::Campaign(const std::string& holder, const std::string& about) {
  if (absl::Status checked = CheckHolder(holder, about); !checked.ok()) return checked;
  return InTransaction<Lead>([&]() -> absl::StatusOr<Lead> {
    absl::StatusOr<Lead> lead = ReadLead();
    if (!lead.ok()) return lead;
    if (lead->holder != holder) ++lead->epoch;
    const bool changed = lead->holder != holder || lead->about != about;
    lead->holder = holder;
    lead->about = about;
    lead->mine = true;
    if (changed) {
      if (absl::Status written = WriteLead(*lead); !written.ok()) return written;
    }
    return lead;
  });
}

absl::StatusOr<Lead> SqliteFile::Leader() {
  absl::StatusOr<Lead> lead = ReadLead();
  return lead.ok() && lead->holder.empty() ? Lead() : lead;
}

absl::Status SqliteFile::Resign(const std::string& holder, uint64_t epoch) {
  return InTransaction<Lead>([&]() -> absl::StatusOr<Lead> {
           absl::StatusOr<Lead> lead = ReadLead();
           if (!lead.ok() || lead->holder != holder || lead->epoch != epoch) return lead;
           if (absl::Status written = WriteLead({.epoch = epoch}); !written.ok()) return written;
           return lead;
         })
      .status();
}

absl::StatusOr<Lead> SqliteFile::ReadLead() {
  // A file of an earlier version has no such table; that version still works with one that does.
  const absl::Status made = db_->Execute(
      "CREATE TABLE IF NOT EXISTS leader (only_one INTEGER PRIMARY KEY CHECK (only_one = 1), "
      "epoch INTEGER NOT NULL, holder TEXT NOT NULL, about TEXT NOT NULL)");
  if (!made.ok()) return made;
  if (!lead_) {
    absl::StatusOr<sqlite::Statement> read = db_->Prepare("SELECT epoch, holder, about FROM leader");
    if (!read.ok()) return read.status();
    absl::StatusOr<sqlite::Statement> write =
        db_->Prepare("INSERT OR REPLACE INTO leader (only_one, epoch, holder, about) VALUES (1, ?, ?, ?)");
    if (!write.ok()) return write.status();
    lead_.emplace(*std::move(read));
    set_lead_.emplace(*std::move(write));
  }
  const absl::StatusOr<bool> row = lead_->Step();
  Lead lead;
  if (row.ok() && *row) {
    lead.epoch = Unsigned(lead_->Int(0));
    lead.holder = lead_->Text(1);
    lead.about = lead_->Text(2);
  }
  lead_->Reset();
  if (!row.ok()) return row.status();
  return lead;
}

absl::Status SqliteFile::WriteLead(const Lead& lead) {
  return set_lead_->Bind(1, Signed(lead.epoch))
      .Bind(2, std::string_view(lead.holder))
      .Bind(3, std::string_view(lead.about))
      .Run();
}

absl::Status SqliteFile::CheckEpoch(uint64_t epoch) {
  if (epoch == 0) return absl::OkStatus();
  const absl::StatusOr<Lead> lead = ReadLead();
  if (!lead.ok()) return lead.status();
  const uint64_t leading = lead->holder.empty() ? 0 : lead->epoch;
  return leading == epoch ? absl::OkStatus() : DeposedError(epoch, leading);
}

absl::StatusOr<Committed> SqliteFile::WriteAll(const std::vector<Write>& writes) {
  absl::StatusOr<Sequence> sequence = ReadSequence();
  if (!sequence.ok()) return sequence.status();
  Committed committed{sequence->last + 1, sequence->last + writes.size()};
  bool removes = false;
  for (const Write& write : writes) {
    const absl::StatusOr<uint64_t> version = VersionOf(write.kind, write.id);
    if (!version.ok()) return version.status();
    if (*version != write.replaces) return OtherVersionError(write, *version);
    put_->Bind(1, Signed(++sequence->last))
        .Bind(2, std::string_view(write.kind))
        .Bind(3, std::string_view(write.id));
    if (write.body) {
      put_->Bind(4, std::string_view(*write.body));
    } else {
      put_->BindNull(4);
      removes = true;
    }
    if (absl::Status put = put_->Run(); !put.ok()) return put;
  }
  if (removes) {
    if (absl::Status forgotten = Forget(*sequence); !forgotten.ok()) return forgotten;
  }
  set_sequence_->Bind(1, Signed(sequence->last)).Bind(2, Signed(sequence->forgotten));
  if (absl::Status set = set_sequence_->Run(); !set.ok()) return set;
  return committed;
}

absl::Status SqliteFile::Forget(Sequence& sequence) {
  if (sequence.last <= options_.kept_removals) return absl::OkStatus();
  const uint64_t until = sequence.last - options_.kept_removals;
  if (absl::Status run = forget_->Bind(1, Signed(until)).Run(); !run.ok()) return run;
  if (db_->changed_rows() > 0) sequence.forgotten = until;
  return absl::OkStatus();
}

void SqliteFile::Rollback() {
  if (db_->in_transaction()) db_->Execute("ROLLBACK").IgnoreError();
}

}  // namespace gateway::store
