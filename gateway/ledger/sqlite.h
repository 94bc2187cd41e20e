// SQLite with statuses and lifetimes: what the index needs of it and no more. One connection per thread.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

struct sqlite3;
struct sqlite3_stmt;

namespace gateway::ledger {

// A prepared statement. Parameters count from 1, columns from 0.
class Statement {
 public:
  Statement(sqlite3* db, sqlite3_stmt* statement) : db_(db), statement_(statement) {}

  Statement& Bind(int parameter, int64_t value);
  Statement& Bind(int parameter, std::string_view value);  // which must live until Reset
  // True: there is a row.
  absl::StatusOr<bool> Step();
  // Steps once, expecting no row to matter, and resets.
  absl::Status Run();
  int64_t Int(int column) const;
  std::string Text(int column) const;
  void Reset();

 private:
  struct Finalize {
    void operator()(sqlite3_stmt* statement) const;
  };
  sqlite3* db_;
  std::unique_ptr<sqlite3_stmt, Finalize> statement_;
};

class Database {
 public:
  // DataLoss when the file is no database or a damaged one.
  static absl::StatusOr<Database> Open(const std::string& path);

  absl::StatusOr<Statement> Prepare(std::string_view sql);
  absl::Status Execute(const std::string& sql);

 private:
  struct Close {
    void operator()(sqlite3* db) const;
  };
  explicit Database(sqlite3* db) : db_(db) {}
  std::unique_ptr<sqlite3, Close> db_;
};

}  // namespace gateway::ledger
