// Files: what applications keep here: bytes in a folder of state_dir, what is known of them in the store.
//
// A file is 0600, named by its id, and there before the store has it; the store forgets it before it is
// removed. Each tenant has at most so many files and bytes, those that are being uploaded included. A file of
// another tenant does not exist.
//
// Owner: the process. Thread: the loop's; what blocks runs beside it.
#pragma once

#include <absl/container/flat_hash_map.h>
#include <absl/status/status.h>

#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "conf/time.h"
#include "gateway/api/error.h"
#include "gateway/batches/stored_file.h"
#include "gateway/config/batches.h"
#include "gateway/ledger/content_keys.h"
#include "gateway/net/loop.h"
#include "gateway/store/store.h"
#include "gateway/store/stored_copy.h"

namespace gateway::batches {

template <class T>
using Result = std::variant<T, api::ApiError>;

// Of the store: what an application is told.
api::ApiError ErrorOf(const absl::Status& status);
// By which an event waits for the ledger.
store::Write EventFor(std::string_view action, const std::string& actor, const std::string& subject,
                      const std::string& tenant, std::string detail);

class Files {
 public:
  // All must outlive it. `keys`: null: nothing is sealed. `options`: nothing where no files are kept.
  Files(net::Loop& loop, store::Store& store, ledger::ContentKeys* keys, std::string dir,
        std::function<std::optional<config::Files>()> options);

  net::Task<absl::Status> Start();
  void Stop() { copy_.Stop(); }

  struct Upload {
    std::string id = {};
    std::string tenant = {};
    std::string key = {};
    Purpose purpose = Purpose::kUserData;
    std::string name = {};
    uint64_t bytes = 0;
    std::optional<conf::Duration> age = {};
  };
  struct Place {
    std::string id;
    std::string path;           // to write to; 0600
    ledger::ContentKeyRef key;  // as KeptFile has it
    uint64_t most_bytes;        // that it may have
  };
  // Holds room for a file of at most `bytes`, until Keep or Abandon.
  net::Task<Result<Place>> Hold(std::string tenant, uint64_t bytes);
  // The key under which a new file of the tenant is sealed; null: it is not.
  net::Task<absl::StatusOr<ledger::ContentKeyRef>> KeyFor(std::string tenant);
  // That of `sealed_by`. FailedPrecondition: it was erased, and what it sealed with it.
  absl::StatusOr<ledger::ContentKeyRef> KeyOf(const std::string& sealed_by) const;
  // Of a file that is kept or being uploaded.
  absl::StatusOr<ledger::ContentKeyRef> KeyOfFile(const std::string& id) const;
  // The bytes are written and synced.
  net::Task<Result<StoredFile>> Keep(Upload upload, conf::TimePoint now);
  net::Task<void> Abandon(std::string id);
  std::string UploadPathOf(std::string_view id) const;

  // Null: the tenant has none of that id.
  const StoredFile* Find(std::string_view tenant, std::string_view id, conf::TimePoint now) const;
  std::vector<const StoredFile*> OfTenant(std::string_view tenant, conf::TimePoint now) const;
  net::Task<Result<StoredFile>> Remove(std::string tenant, std::string id, std::string key,
                                       conf::TimePoint now);

  // The write by which a file becomes one, for a transaction with others; CatchUp shows it.
  static store::Write Making(const StoredFile& file);
  net::Task<absl::Status> CatchUp() { return copy_.CatchUp(); }

  // Removes those that are too old, and the remains of uploads; `used`: ids that must stay.
  net::Task<void> Sweep(std::set<std::string> used, conf::TimePoint now);

  std::string PathOf(std::string_view id) const;
  conf::Duration max_age() const;
  const std::function<std::optional<config::Files>()>& options() const { return options_; }
  uint64_t bytes() const;
  size_t count() const { return copy_.all().size(); }

 private:
  struct Held {
    std::string tenant;
    uint64_t bytes = 0;
    std::string sealed_by;
  };
  net::Task<absl::Status> RemoveBytes(std::string path);

  net::Loop& loop_;
  store::Store& store_;
  ledger::ContentKeys* const keys_;
  const std::string dir_;
  const std::function<std::optional<config::Files>()> options_;
  store::StoredCopy<StoredFile> copy_;
  absl::flat_hash_map<std::string, Held> held_;  // uploads, by id
};

}  // namespace gateway::batches
