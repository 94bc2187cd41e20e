// SQLite with statuses and lifetimes: only what the store and the ledger's index need.
//
// Thread: one connection belongs to one thread. Errors name the file: ResourceExhausted for a full disk,
// Unavailable for a lock that another process holds or a file that cannot be read or written, DataLoss for a
// file that is damaged or not a database.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "conf/time.h"

struct sqlite3;
struct sqlite3_stmt;

namespace gateway::sqlite {

class Database;

// A prepared statement. Parameters count from 1, columns from 0. Must not outlive its database.
class Statement {
 public:
  Statement(const Database& db, sqlite3_stmt* statement) : db_(&db), statement_(statement) {}

  Statement& Bind(int parameter, int64_t value);
  Statement& Bind(int parameter, std::string_view value);  // which must live until Reset
  Statement& BindReal(int parameter, double value);
  Statement& BindNull(int parameter);
  // True: there is a row.
  absl::StatusOr<bool> Step();
  // Steps once, expecting no row to matter, and resets.
  absl::Status Run();
  int64_t Int(int column) const;
  double Real(int column) const;
  std::string Text(int column) const;
  bool IsNull(int column) const;
  void Reset();

 private:
  struct Finalize {
    void operator()(sqlite3_stmt* statement) const;
  };
  const Database* db_;
  std::unique_ptr<sqlite3_stmt, Finalize> statement_;
};

class Database {
 public:
  enum class Sync { kNormal, kFull };  // kFull: a commit is on the disk when it returns

  // Write-ahead log. Opens or makes the file; makes it with the mode that the process' umask gives.
  static absl::StatusOr<std::unique_ptr<Database>> Open(const std::string& path, Sync sync);
  ~Database();
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  absl::StatusOr<Statement> Prepare(std::string_view sql);
  absl::Status Execute(const std::string& sql);
  // The first column of the first row.
  absl::StatusOr<int64_t> QueryInt(std::string_view sql);
  // How long a statement waits for another process' lock.
  void SetBusyTimeout(conf::Duration timeout);
  // Takes room on the disk for the write-ahead log, that many bytes, while no other process writes; and lets
  // the file grow by `step` bytes at once. A full disk then takes changes still.
  absl::Status KeepRoom(int64_t log_bytes, int step);
  bool in_transaction() const;
  int64_t changed_rows() const;  // by the last statement
  const std::string& path() const { return path_; }

 private:
  friend class Statement;
  Database(std::string path, sqlite3* db) : path_(std::move(path)), db_(db) {}
  // Of the last call, in words: no SQL.
  absl::Status Error() const;

  const std::string path_;
  sqlite3* const db_;
};

}  // namespace gateway::sqlite
