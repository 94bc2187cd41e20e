// A PostgreSQL of this benchmark, and what it counts of one database.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <exception>
#include <memory>
#include <string>
#include <vector>

#include "gateway/net/postgres.h"
#include "tests/support/loop_test.h"
#include "tests/support/postgres_server.h"

namespace bench::clusters {

class Database {
 public:
  static constexpr const char* kName = "bench";

  struct Counts {
    uint64_t commits = 0;
    uint64_t statements = 0;  // by its log
    uint64_t rows_read = 0;
    uint64_t rows_written = 0;
    uint64_t wal_bytes = 0;  // of the whole server, which has no other database in use
  };

  // Makes and starts it.
  absl::Status Start();

  std::string url() const { return server_.Url(kName); }
  // Asked over the server's own database, so that it counts for nothing.
  absl::StatusOr<Counts> Read();
  absl::Status Checkpoint();

 private:
  absl::StatusOr<std::vector<gateway::net::PostgresRows>> Run(std::vector<std::string> statements);

  // Autovacuum has transactions of its own. The log is where the statements are counted.
  tests::PostgresServer server_{{"autovacuum=off", "full_page_writes=on", "log_line_prefix=%d "}};
  tests::TestLoop loop_{[](std::exception_ptr) { std::abort(); }};
  std::unique_ptr<gateway::net::PostgresConnection> connection_;
  std::string log_;
};

}  // namespace bench::clusters
