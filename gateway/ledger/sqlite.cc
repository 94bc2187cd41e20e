#include "gateway/ledger/sqlite.h"

#include <fmt/format.h>
#include <sqlite3.h>

#include "conf/text.h"

namespace gateway::ledger {
namespace {

constexpr int kBusyTimeoutMs = 10'000;

absl::Status Error(sqlite3* db, std::string_view what) {
  const int code = sqlite3_errcode(db);
  const std::string message = fmt::format("index: {}: {}", what, sqlite3_errmsg(db));
  if (code == SQLITE_CORRUPT || code == SQLITE_NOTADB) return absl::DataLossError(conf::Abseil(message));
  if (code == SQLITE_BUSY || code == SQLITE_LOCKED) return absl::UnavailableError(conf::Abseil(message));
  return absl::InternalError(conf::Abseil(message));
}

}  // namespace

void Statement::Finalize::operator()(sqlite3_stmt* statement) const {
  sqlite3_finalize(statement);
}
void Database::Close::operator()(sqlite3* db) const {
  sqlite3_close_v2(db);
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

absl::StatusOr<bool> Statement::Step() {
  const int code = sqlite3_step(statement_.get());
  if (code == SQLITE_ROW) return true;
  if (code == SQLITE_DONE) return false;
  return Error(db_, sqlite3_sql(statement_.get()));
}

absl::Status Statement::Run() {
  const absl::StatusOr<bool> row = Step();
  Reset();
  return row.status();
}

int64_t Statement::Int(int column) const {
  return sqlite3_column_int64(statement_.get(), column);
}

std::string Statement::Text(int column) const {
  const auto* text = reinterpret_cast<const char*>(sqlite3_column_text(statement_.get(), column));
  if (text == nullptr) return {};
  return {text, static_cast<size_t>(sqlite3_column_bytes(statement_.get(), column))};
}

void Statement::Reset() {
  sqlite3_reset(statement_.get());
}

absl::StatusOr<Database> Database::Open(const std::string& path) {
  sqlite3* raw = nullptr;
  const int code = sqlite3_open_v2(path.c_str(), &raw, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, nullptr);
  Database db(raw);
  if (code != SQLITE_OK) return Error(raw, "open " + path);
  sqlite3_busy_timeout(raw, kBusyTimeoutMs);
  if (absl::Status set = db.Execute("PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL"); !set.ok())
    return set;
  return db;
}

absl::StatusOr<Statement> Database::Prepare(std::string_view sql) {
  sqlite3_stmt* statement = nullptr;
  if (sqlite3_prepare_v2(db_.get(), sql.data(), static_cast<int>(sql.size()), &statement, nullptr) !=
      SQLITE_OK) {
    return Error(db_.get(), sql);
  }
  return Statement(db_.get(), statement);
}

absl::Status Database::Execute(const std::string& sql) {
  if (sqlite3_exec(db_.get(), sql.c_str(), nullptr, nullptr, nullptr) != SQLITE_OK)
    return Error(db_.get(), sql);
  return absl::OkStatus();
}

}  // namespace gateway::ledger
