// PostgresStore: the store in a PostgreSQL database, for several gateways.
//
// The tables are in the schema `tidegate`, which the store creates and migrates itself. As with SQLite, the table of
// objects is the list of changes. The number of a change comes from a counter row that the transaction locks, so
// numbers become visible in order; a fenced commit also locks the leader's row until its end.
//
// One connection works through the operations, in order; waiting commits go into one transaction, each judged by
// itself. While there are listeners, a second connection follows the changes of others: NOTIFY reports them at once,
// and every second the store asks. A lost connection is made again after a pause that grows; until then operations are
// refused at once.
//
// A database that went back to an older state (a copy was promoted, a backup restored) is noticed when the connections
// are made again: its sequence and its epochs then continue after the highest ones that any gateway has seen, and every
// follower lists again.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <functional>
#include <memory>
#include <string>

#include "conf/time.h"
#include "gateway/net/loop.h"
#include "gateway/net/postgres.h"
#include "gateway/store/store.h"

namespace gateway::store {

struct PostgresStoreOptions {
  net::PostgresConnection::Options server;
  conf::Duration patience = std::chrono::seconds(5);  // for one operation, behind others
  conf::Duration connect_patience = std::chrono::seconds(5);
  uint64_t kept_removals = 100'000;  // changes
  size_t page = 1'000;               // most changes that one call of Changes() returns
  size_t max_waiting = 1'024;        // operations
  bool makes_schema = true;          // if not, a database without the tables is NotFound
  uint64_t seed = 1;                 // of the pauses before it connects again
  // Called when the database was put back to an older state, or another server took over; in words.
  std::function<void(const std::string&)> on_restored = [](const std::string&) {};
};

class PostgresStore final : public Store {
 public:
  struct Facts {
    std::string address;
    std::string server_version;
    uint64_t schema = 0;
    uint64_t last = 0;  // the number of the last change
  };

  // Connects with the first operation. The loop must outlive it, and every operation must have ended before
  // it is destroyed.
  PostgresStore(net::Loop& loop, PostgresStoreOptions options);
  ~PostgresStore() override;

  // Connects, and makes or checks the schema. FailedPrecondition: it cannot be used as it is, and why.
  net::Task<absl::StatusOr<Facts>> Check();

  net::Task<absl::StatusOr<std::optional<Object>>> Get(std::string kind, std::string id) override;
  net::Task<absl::StatusOr<Listing>> List(std::string kind) override;
  net::Task<absl::StatusOr<Listing>> ListPage(std::string kind, std::string after, size_t limit) override;
  net::Task<absl::StatusOr<ChangeList>> Changes(std::string kind, uint64_t after) override;
  net::Task<absl::StatusOr<Committed>> Commit(std::vector<Write> writes, uint64_t epoch) override;
  net::Task<absl::StatusOr<Lead>> Campaign(std::string holder, std::string about,
                                           conf::Duration ttl) override;
  net::Task<absl::StatusOr<Lead>> Leader() override;
  net::Task<absl::Status> SkipTo(uint64_t number) override;
  net::Task<absl::Status> Resign(std::string holder, uint64_t epoch) override;
  void Add(Listener& listener) override;
  void Remove(Listener& listener) override;

 private:
  class Core;
  const std::shared_ptr<Core> core_;  // shared with the task that follows
};

}  // namespace gateway::store
