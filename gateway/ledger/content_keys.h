// ContentKeys: the keys that seal stored prompts and answers (content_key.h), one for each tenant. One file holds
// them, each wrapped under a master key, and the list of destroyed keys. The file is not a part of the ledger: a
// copy of the ledger has no key, and the file can be kept in backups that are deleted sooner.
//
// To destroy a key, the file is written again without it, and the old file is overwritten in place, as far as the
// file system and the disk allow that. The operator must delete copies of the file elsewhere.
//
// Owner: the process, or a command that reads or erases while no gateway runs. Thread-safe; Ensure, Erase and Open
// block on the disk.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "conf/time.h"
#include "gateway/ledger/content_key.h"

namespace gateway::ledger {

using ContentKeyRef = std::shared_ptr<const ContentKey>;

class ContentKeys {
 public:
  struct Options {
    std::string path;  // the file with the keys
    std::string
        master_path;  // the file with the master key that is made if none is configured: 64 hex digits
    // Configured master keys, as 64 hex digits: the first wraps, all unwrap. Empty: the one at master_path.
    std::vector<std::string> masters = {};
    bool may_write =
        true;  // false, for readers: creates nothing; a missing file counts as a file without keys
  };
  struct Erased {
    std::string id;
    std::string tenant;
    conf::TimePoint at;
    std::string by;
    std::string reason;
    bool recorded = false;  // the ledger has a record of it
  };

  // Keys that are not wrapped under the first master key are wrapped again. FailedPrecondition: no master key fits,
  // or other users can read a file.
  static absl::StatusOr<std::unique_ptr<ContentKeys>> Open(Options options);

  // Makes keys for the tenants that have none; they are on disk when it returns.
  absl::Status Ensure(const std::vector<std::string>& tenants);
  // The key of a tenant; null: Ensure was not called for this tenant.
  ContentKeyRef For(std::string_view tenant) const;

  // A key that is kept elsewhere than in this file: as hex, wrapped under the first master key, and back. `key` null:
  // no master key fits. `old`: another than the first did.
  struct Unwrapped {
    ContentKeyRef key = {};
    bool old = false;
  };
  static ContentKeyRef MakeNew();
  absl::StatusOr<std::string> Wrap(const ContentKey& key) const;
  Unwrapped Unwrap(const std::string& id, std::string_view wrapped) const;

  // The key with that name; null: it does not exist, or was erased.
  ContentKeyRef Find(std::string_view id) const;
  // None if no such key was erased.
  std::optional<Erased> WhenErased(std::string_view id) const;

  // Destroys the keys of a tenant and of the tenants below it, and gives each a new key. Returns the destroyed
  // keys.
  absl::StatusOr<std::vector<Erased>> Erase(std::string_view tenant, std::string_view by,
                                            std::string_view reason, conf::TimePoint now);
  // Destroyed keys that have no record in the ledger yet.
  std::vector<Erased> Unrecorded() const;
  absl::Status MarkRecorded(std::string_view id);

 private:
  using ByTenant = std::map<std::string, ContentKeyRef, std::less<>>;

  explicit ContentKeys(Options options) : options_(std::move(options)) {}
  absl::Status ReadMasters();
  absl::Status ReadMaster();
  absl::Status Read();
  absl::Status Write(const ByTenant& keys, const std::vector<Erased>& erased) const;

  const Options options_;
  std::vector<ContentKeyRef> masters_;
  bool old_master_ = false;  // a key was not wrapped under the first master key
  mutable std::mutex mutex_;
  ByTenant keys_;
  std::vector<Erased> erased_;
};

}  // namespace gateway::ledger
