// The backends that the store's conformance tests run over. A backend makes an empty store and opens it any
// number of times, as several processes would.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "gateway/net/loop.h"
#include "gateway/store/postgres_store.h"
#include "gateway/store/sqlite_store.h"
#include "gateway/store/store.h"
#include "tests/support/memory_store.h"
#include "tests/support/postgres_server.h"
#include "tests/support/temp_dir.h"

namespace tests {

struct StoreTuning {
  uint64_t kept_removals = 100'000;
  size_t page = 1'000;
};

class StoreBackend {
 public:
  virtual ~StoreBackend() = default;
  virtual absl::StatusOr<std::unique_ptr<gateway::store::Store>> Open(gateway::net::Loop& loop,
                                                                      StoreTuning tuning) = 0;

  // Why it cannot run on this machine; empty: it can.
  virtual std::string missing() const { return {}; }
  // Whether several gateways may use it at once, so that a lead ends by time.
  virtual bool is_shared() const { return true; }
  // Moves the clock by which a lead ends; a backend with a clock of its own runs by itself.
  virtual void Pass(conf::Duration) {}
};

class SqliteBackend final : public StoreBackend {
 public:
  absl::StatusOr<std::unique_ptr<gateway::store::Store>> Open(gateway::net::Loop& loop,
                                                              StoreTuning tuning) override {
    gateway::store::SqliteStoreOptions options;
    options.file.path = path();
    options.file.kept_removals = tuning.kept_removals;
    options.file.page = tuning.page;
    return gateway::store::OpenSqliteStore(loop, std::move(options));
  }
  bool is_shared() const override { return false; }
  std::string path() const { return dir_ / "state.db"; }

 private:
  TempDir dir_;
};

// A database of its own in a server that all tests of the process share.
class PostgresBackend final : public StoreBackend {
 public:
  std::string missing() const override { return PostgresServer::Missing(); }
  absl::StatusOr<std::unique_ptr<gateway::store::Store>> Open(gateway::net::Loop& loop,
                                                              StoreTuning tuning) override {
    PostgresServer& server = PostgresServer::Shared();
    if (database_.empty()) {
      static int made = 0;
      database_ = "test" + std::to_string(++made);
      if (!server.MakeDatabase(database_)) return absl::UnavailableError("no database could be made");
    }
    gateway::store::PostgresStoreOptions options;
    options.server.url = server.Url(database_);
    options.server.password = PostgresServer::kPassword;
    options.kept_removals = tuning.kept_removals;
    options.page = tuning.page;
    return std::make_unique<gateway::store::PostgresStore>(loop, std::move(options));
  }

 private:
  std::string database_;
};

// The store of tests/support. It leads as a backend does, and has neither pages nor forgotten removals.
class MemoryBackend final : public StoreBackend {
 public:
  absl::StatusOr<std::unique_ptr<gateway::store::Store>> Open(gateway::net::Loop&, StoreTuning) override {
    return std::make_unique<Opened>(memory_);
  }
  void Pass(conf::Duration time) override { memory_.now += time; }

 private:
  class Opened final : public gateway::store::Store {
   public:
    explicit Opened(MemoryStore& memory) : memory_(memory) {}
    gateway::net::Task<absl::StatusOr<std::optional<gateway::store::Object>>> Get(std::string kind,
                                                                                  std::string id) override {
      return memory_.Get(std::move(kind), std::move(id));
    }
    gateway::net::Task<absl::StatusOr<gateway::store::Listing>> List(std::string kind) override {
      return memory_.List(std::move(kind));
    }
    gateway::net::Task<absl::StatusOr<gateway::store::Listing>> ListPage(std::string kind, std::string after,
                                                                         size_t limit) override {
      return memory_.ListPage(std::move(kind), std::move(after), limit);
    }
    gateway::net::Task<absl::StatusOr<gateway::store::ChangeList>> Changes(std::string kind,
                                                                           uint64_t after) override {
      return memory_.Changes(std::move(kind), after);
    }
    gateway::net::Task<absl::StatusOr<gateway::store::Committed>> Commit(
        std::vector<gateway::store::Write> writes, uint64_t epoch = 0) override {
      return memory_.Commit(std::move(writes), epoch);
    }
    gateway::net::Task<absl::StatusOr<gateway::store::Lead>> Campaign(std::string holder, std::string about,
                                                                      conf::Duration ttl) override {
      return memory_.Campaign(std::move(holder), std::move(about), ttl);
    }
    gateway::net::Task<absl::StatusOr<gateway::store::Lead>> Leader() override { return memory_.Leader(); }
    gateway::net::Task<absl::Status> SkipTo(uint64_t number) override { return memory_.SkipTo(number); }
    gateway::net::Task<absl::Status> Resign(std::string holder, uint64_t epoch) override {
      return memory_.Resign(std::move(holder), epoch);
    }
    void Add(Listener& listener) override { memory_.Add(listener); }
    void Remove(Listener& listener) override { memory_.Remove(listener); }

   private:
    MemoryStore& memory_;
  };

  MemoryStore memory_;
};

}  // namespace tests
