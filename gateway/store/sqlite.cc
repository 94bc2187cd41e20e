#include "gateway/store/sqlite.h"

#include <fmt/format.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <optional>

#include "conf/text.h"

namespace gateway::sqlite {
namespace {

constexpr conf::Duration kBusyTimeout = std::chrono::seconds(10);

std::string Refusal(std::string_view what, const struct stat& file, std::string_view verb) {
  return fmt::format(
      "{} (mode {:o}, of user {}) may not be {} by user {}; run this as its owner, or correct its rights",
      what, file.st_mode & 07777, file.st_uid, verb, geteuid());
}

// Why this process cannot use the file, in words. SQLite says only that it cannot. It makes files beside the database,
// so it needs to write in the folder even to read.
std::optional<std::string> FindMissingRight(const std::string& path) {
  const std::filesystem::path parent = std::filesystem::path(path).parent_path();
  const std::string folder = parent.empty() ? "." : parent.string();
  struct statvfs disk{};
  if (statvfs(folder.c_str(), &disk) == 0 && (disk.f_flag & ST_RDONLY) != 0)
    return "cannot be written: its file system is mounted read-only; mount it for writing, and try again";
  struct stat info{};
  for (const std::string& file : {path, path + "-wal", path + "-shm"}) {
    if (stat(file.c_str(), &info) != 0) continue;
    const std::string what = file == path ? "the file" : file;
    if (euidaccess(file.c_str(), R_OK) != 0) return Refusal(what, info, "read");
    if (euidaccess(file.c_str(), W_OK) != 0) return Refusal(what, info, "written");
  }
  if (stat(folder.c_str(), &info) == 0 && euidaccess(folder.c_str(), W_OK | X_OK) != 0)
    return Refusal("its folder", info, "written");
  return std::nullopt;
}

}  // namespace

void Statement::Finalize::operator()(sqlite3_stmt* statement) const {
  sqlite3_finalize(statement);
}

Statement& Statement::Bind(int parameter, int64_t value) {
  sqlite3_bind_int64(statement_.get(), parameter, value);
  return *this;
}

Statement& Statement::Bind(int parameter, std::string_view value) {
  sqlite3_bind_text(statement_.get(), parameter, value.data() == nullptr ? "" : value.data(),
                    static_cast<int>(value.size()), SQLITE_STATIC);
  return *this;
}

Statement& Statement::BindReal(int parameter, double value) {
  sqlite3_bind_double(statement_.get(), parameter, value);
  return *this;
}

Statement& Statement::BindNull(int parameter) {
  sqlite3_bind_null(statement_.get(), parameter);
  return *this;
}

absl::StatusOr<bool> Statement::Step() {
  const int code = sqlite3_step(statement_.get());
  if (code == SQLITE_ROW) return true;
  if (code == SQLITE_DONE) return false;
  return db_->Error();
}

absl::Status Statement::Run() {
  const absl::StatusOr<bool> row = Step();
  Reset();
  return row.status();
}

int64_t Statement::Int(int column) const {
  return sqlite3_column_int64(statement_.get(), column);
}

double Statement::Real(int column) const {
  return sqlite3_column_double(statement_.get(), column);
}

std::string Statement::Text(int column) const {
  const auto* text = reinterpret_cast<const char*>(sqlite3_column_text(statement_.get(), column));
  if (text == nullptr) return {};
  return {text, static_cast<size_t>(sqlite3_column_bytes(statement_.get(), column))};
}

bool Statement::IsNull(int column) const {
  return sqlite3_column_type(statement_.get(), column) == SQLITE_NULL;
}

void Statement::Reset() {
  sqlite3_reset(statement_.get());
}

absl::StatusOr<std::unique_ptr<Database>> Database::Open(const std::string& path, Sync sync) {
  sqlite3* raw = nullptr;
  const int code = sqlite3_open_v2(path.c_str(), &raw, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, nullptr);
  std::unique_ptr<Database> db(new Database(path, raw));
  if (raw == nullptr) return absl::ResourceExhaustedError(fmt::format("{}: no memory to open it", path));
  if (code != SQLITE_OK) return db->Error();
  sqlite3_extended_result_codes(raw, 1);
  db->SetBusyTimeout(kBusyTimeout);
  const char* const level = sync == Sync::kFull ? "FULL" : "NORMAL";
  if (absl::Status set = db->Execute(fmt::format("PRAGMA journal_mode=WAL; PRAGMA synchronous={}", level));
      !set.ok()) {
    return set;
  }
  return db;
}

Database::~Database() {
  sqlite3_close_v2(db_);
}

absl::StatusOr<Statement> Database::Prepare(std::string_view sql) {
  sqlite3_stmt* statement = nullptr;
  if (sqlite3_prepare_v2(db_, sql.data(), static_cast<int>(sql.size()), &statement, nullptr) != SQLITE_OK)
    return Error();
  return Statement(*this, statement);
}

absl::Status Database::Execute(const std::string& sql) {
  if (sqlite3_exec(db_, sql.c_str(), nullptr, nullptr, nullptr) != SQLITE_OK) return Error();
  return absl::OkStatus();
}

absl::StatusOr<int64_t> Database::QueryInt(std::string_view sql) {
  absl::StatusOr<Statement> statement = Prepare(sql);
  if (!statement.ok()) return statement.status();
  const absl::StatusOr<bool> row = statement->Step();
  if (!row.ok()) return row.status();
  if (!*row) return absl::DataLossError(fmt::format("{}: a value that it always has is missing", path_));
  return statement->Int(0);
}

void Database::SetBusyTimeout(conf::Duration timeout) {
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(timeout).count();
  sqlite3_busy_timeout(db_, static_cast<int>(ms));
}

absl::Status Database::KeepRoom(int64_t log_bytes, int step) {
  if (absl::Status begun = Execute("BEGIN IMMEDIATE"); !begun.ok()) return begun;
  sqlite3_file_control(db_, "main", SQLITE_FCNTL_CHUNK_SIZE, &step);
  sqlite3_file* log = nullptr;
  sqlite3_file_control(db_, "main", SQLITE_FCNTL_JOURNAL_POINTER, static_cast<void*>(&log));
  int code = SQLITE_OK;
  if (log != nullptr && log->pMethods != nullptr) {
    int whole = static_cast<int>(log_bytes);
    log->pMethods->xFileControl(log, SQLITE_FCNTL_CHUNK_SIZE, &whole);
    code = log->pMethods->xFileControl(log, SQLITE_FCNTL_SIZE_HINT, &log_bytes);
  }
  if (absl::Status ended = Execute("ROLLBACK"); !ended.ok()) return ended;
  return code == SQLITE_OK ? absl::OkStatus()
                           : absl::ResourceExhaustedError(fmt::format("{}: no room to keep", path_));
}

bool Database::in_transaction() const {
  return sqlite3_get_autocommit(db_) == 0;
}

int64_t Database::changed_rows() const {
  return sqlite3_changes64(db_);
}

absl::Status Database::Error() const {
  const int code = sqlite3_errcode(db_) & 0xff;
  const int error = sqlite3_system_errno(db_);
  if (code == SQLITE_FULL ||
      ((code == SQLITE_IOERR || code == SQLITE_CANTOPEN) && (error == ENOSPC || error == EDQUOT)))
    return absl::ResourceExhaustedError(
        fmt::format("{}: the disk is full; free space on it and try again", path_));
  if (code == SQLITE_BUSY || code == SQLITE_LOCKED) {
    return absl::UnavailableError(fmt::format(
        "{}: another process keeps it locked; end the command that uses it, or try again", path_));
  }
  if (code == SQLITE_CORRUPT || code == SQLITE_NOTADB)
    return absl::DataLossError(fmt::format("{}: {}", path_, sqlite3_errmsg(db_)));
  if (code == SQLITE_IOERR || code == SQLITE_CANTOPEN || code == SQLITE_READONLY || code == SQLITE_PERM) {
    if (std::optional<std::string> missing = FindMissingRight(path_))
      return absl::UnavailableError(fmt::format("{}: {}", path_, *missing));
    const bool told = error != 0 && code != SQLITE_READONLY;
    return absl::UnavailableError(fmt::format("{}: {}{}{}", path_, sqlite3_errmsg(db_), told ? ": " : "",
                                              told ? std::strerror(error) : ""));
  }
  return absl::InternalError(fmt::format("{}: {}", path_, sqlite3_errmsg(db_)));
}

}  // namespace gateway::sqlite
