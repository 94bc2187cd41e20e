// SqliteStore: the store in a SQLite file of state_dir: the default, with nothing to install.
//
// One thread owns the file's only connection and works through a bounded queue, in order. An operation
// that waits for longer than its patience, behind others or for another process' lock, is refused; one that
// the disk holds up ends when the disk answers. While there are listeners, the thread looks every 50 ms
// whether another process has committed something, which costs a few microseconds, and every second whether
// the file is still there.
#pragma once

#include <absl/status/statusor.h>

#include <memory>
#include <string>

#include "gateway/net/loop.h"
#include "gateway/store/sqlite_file.h"
#include "gateway/store/store.h"

namespace gateway::store {

struct SqliteStoreOptions {
  SqliteFile::Options file;
  conf::Duration patience = std::chrono::seconds(5);
  size_t max_waiting = 256;                // operations
  size_t max_waiting_bytes = 64ull << 20;  // of writes; one operation alone may have more
};

// Opens or makes the file, before it returns; errors as SqliteFile::Open. The loop must outlive the store,
// and every operation must have ended before the store is destroyed.
absl::StatusOr<std::unique_ptr<Store>> OpenSqliteStore(net::Loop& loop, SqliteStoreOptions options);

}  // namespace gateway::store
