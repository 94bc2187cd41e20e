// The backends that the store's conformance tests run over. A backend makes an empty store and opens it any
// number of times, as several processes would.
#pragma once

#include <memory>
#include <string>

#include "gateway/net/loop.h"
#include "gateway/store/sqlite_store.h"
#include "gateway/store/store.h"
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
  std::string path() const { return dir_ / "state.db"; }

 private:
  TempDir dir_;
};

}  // namespace tests
