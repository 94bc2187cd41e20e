#include "bench/clusters/database.h"

#include <fmt/format.h>

#include <fstream>
#include <utility>

namespace bench::clusters {

constexpr conf::Duration kPatience = std::chrono::seconds(30);

absl::Status Database::Start() {
  if (const std::string why = tests::PostgresServer::Missing(); !why.empty())
    return absl::UnavailableError(why);
  if (!server_.Start() || !server_.MakeDatabase(kName) ||
      !server_.Sql("postgres", fmt::format("ALTER DATABASE {} SET log_statement = 'all'", kName)))
    return absl::UnavailableError("PostgreSQL did not start");
  gateway::net::PostgresConnection::Options options;
  options.url = server_.Url("postgres");
  options.password = tests::PostgresServer::kPassword;
  connection_ = std::make_unique<gateway::net::PostgresConnection>(loop_, std::move(options));
  if (absl::Status connected = gateway::net::Await(loop_, connection_->Connect(kPatience)); !connected.ok())
    return connected;
  const auto data = Run({"SELECT current_setting('data_directory')"});
  if (data.ok()) log_ = data->at(0).Text(0, 0) + "/../log";
  return data.status();
}

absl::StatusOr<std::vector<gateway::net::PostgresRows>> Database::Run(std::vector<std::string> statements) {
  std::vector<gateway::net::PostgresStatement> all;
  for (std::string& sql : statements) all.push_back({std::move(sql)});
  return gateway::net::Await(loop_, connection_->Run(std::move(all), kPatience));
}

absl::Status Database::Checkpoint() {
  return Run({"CHECKPOINT"}).status();
}

absl::StatusOr<Database::Counts> Database::Read() {
  const auto rows =
      Run({fmt::format("SELECT xact_commit, tup_fetched, tup_inserted + tup_updated + tup_deleted, "
                       "(pg_current_wal_lsn() - '0/0'::pg_lsn)::bigint FROM pg_stat_database "
                       "WHERE datname = '{}'",
                       kName)});
  if (!rows.ok()) return rows.status();
  Counts counts{.commits = rows->at(0).Number(0, 0),
                .rows_read = rows->at(0).Number(0, 1),
                .rows_written = rows->at(0).Number(0, 2),
                .wal_bytes = rows->at(0).Number(0, 3)};
  std::ifstream log(log_);
  for (std::string line; std::getline(log, line);) {
    // Lines of the extended protocol, and of the simple one.
    if (line.starts_with("bench LOG:  execute ") || line.starts_with("bench LOG:  statement: "))
      ++counts.statements;
  }
  return counts;
}

}  // namespace bench::clusters
