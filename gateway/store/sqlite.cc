#include "gateway/store/sqlite.h"

#include <fmt/format.h>
#include <sqlite3.h>

#include <cerrno>
#include <cstring>

#include "conf/text.h"

namespace gateway::sqlite {
namespace {

constexpr conf::Duration kBusyTimeout = std::chrono::seconds(10);

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
  return db_->Error(sqlite3_sql(statement_.get()));
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
  if (code != SQLITE_OK) return db->Error("open");
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
    return Error(sql);
  return Statement(*this, statement);
}

absl::Status Database::Execute(const std::string& sql) {
  if (sqlite3_exec(db_, sql.c_str(), nullptr, nullptr, nullptr) != SQLITE_OK) return Error(sql);
  return absl::OkStatus();
}

absl::StatusOr<int64_t> Database::QueryInt(std::string_view sql) {
  absl::StatusOr<Statement> statement = Prepare(sql);
  if (!statement.ok()) return statement.status();
  const absl::StatusOr<bool> row = statement->Step();
  if (!row.ok()) return row.status();
  if (!*row) return absl::DataLossError(fmt::format("{}: {}: no row", path_, sql));
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

absl::Status Database::Error(std::string_view what) const {
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
  if (code == SQLITE_CORRUPT || code == SQLITE_NOTADB) {
    return absl::DataLossError(fmt::format("{}: {} ({})", path_, sqlite3_errmsg(db_), what));
  }
  if (code == SQLITE_IOERR || code == SQLITE_CANTOPEN || code == SQLITE_READONLY || code == SQLITE_PERM) {
    return absl::UnavailableError(fmt::format("{}: {}{}{} ({})", path_, sqlite3_errmsg(db_),
                                              error == 0 ? "" : ": ", error == 0 ? "" : std::strerror(error),
                                              what));
  }
  return absl::InternalError(fmt::format("{}: {} ({})", path_, sqlite3_errmsg(db_), what));
}

}  // namespace gateway::sqlite
