// Store: the folder of a node that keeps models' weights and engines' compile caches, shared by all processes
// of the node that use it.
//
//   STORE/sha256-HEX/              weights, complete and verified: they appear by one rename
//   STORE/cache-KEY/               a compile cache, which engines write
//   STORE/.tidegate/lock           held while it is decided what leaves
//   STORE/.tidegate/ID.lease       held (flock, shared) by what uses the entry; its time is the last use
//   STORE/.tidegate/ID.fetch       held by the one process that fetches it
//   STORE/.tidegate/ID.json        what it is: where it came from, bytes, whether it is pinned
//   STORE/.tidegate/ID.files       its listing (listing.h)
//   STORE/.tidegate/ID.manifest    of an OCI artifact: the manifest, which has the digest
//   STORE/.tidegate/parts/ID/      what a fetch has so far; `need` says how much it will take
//
// Locks are the kernel's, so one that was killed leaves none. The folder must be on a disk of the node.
//
// All calls block. Any thread, but one at a time for each Store. Errors name the file and the reason.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "conf/time.h"
#include "gateway/net/fd.h"
#include "plugins/weights/store_law.h"

namespace plugins::weights {

// The entry does not leave the store while this lives, in this process or one that inherited it.
struct Lease {
  std::string folder{};
  gateway::net::Fd lock{};
};

struct StoreRecord {
  std::string model{};
  std::string source{};  // in words
  uint64_t bytes = 0;
  uint64_t neighbours = 0;  // of these, from other nodes' stores
  uint32_t files = 0;
  bool pinned = false;
  conf::TimePoint fetched{};
};

struct StoredEntry {
  StoreEntry entry{};
  StoreRecord record{};
};

class Store {
 public:
  // Makes the folder where it is missing.
  static absl::StatusOr<Store> Open(std::string folder);
  // Opens a store without making one: a folder that is no store is FailedPrecondition.
  static absl::StatusOr<Store> OpenExisting(std::string folder);

  std::string FolderOf(std::string_view id) const;
  std::string PartsOf(std::string_view id) const;  // of a fetch

  // Absent: the store does not have it.
  absl::StatusOr<std::optional<Lease>> Hold(const std::string& id, conf::TimePoint now) const;
  // The same without a wait, and without creating files for an absent entry. Unavailable: the entry is being removed or
  // listed; try again.
  absl::StatusOr<std::optional<Lease>> TryHold(const std::string& id, conf::TimePoint now) const;
  // Made where it is missing.
  absl::StatusOr<Lease> HoldCache(const std::string& id, conf::TimePoint now) const;

  // The right to fetch it. Absent: another process has the right now.
  absl::StatusOr<std::optional<gateway::net::Fd>> TryFetch(const std::string& id) const;

  struct Need {
    uint64_t bytes = 0;                 // in all, with what the parts have
    uint64_t limit = 0;                 // of the store; 0: none
    std::vector<std::string> pinned{};  // ids that stay
    conf::TimePoint now{};
  };
  // Removes what must leave so that the fetch of `id`, whose right the caller has, can be finished; returns
  // the ids that left. ResourceExhausted: there is no room, and nothing has left.
  absl::StatusOr<std::vector<std::string>> MakeRoom(const std::string& id, const Need& need) const;

  // The folder `from`, whose files are on disk, becomes the entry; `listing` has their hashes. `manifest`: of an
  // OCI artifact; else empty.
  absl::Status Publish(const std::string& id, const std::string& from, const StoreRecord& record,
                       const std::string& listing, const std::string& manifest = {}) const;
  absl::StatusOr<std::string> ListingOf(const std::string& id) const;
  // Empty: it has none.
  std::string ManifestOf(const std::string& id) const;
  // Removes the parts that a fetch has so far.
  absl::Status RemoveParts(const std::string& id) const;

  absl::StatusOr<std::vector<StoredEntry>> List() const;
  absl::Status SetPinned(const std::string& id, bool pinned) const;
  // FailedPrecondition: a running replica holds it, or a fetch.
  absl::Status Remove(const std::string& id) const;

 private:
  explicit Store(std::string folder) : folder_(std::move(folder)) {}

  std::string Hidden(std::string_view name) const;
  // Opens a lock file; users of the store's group may open it, too.
  absl::StatusOr<gateway::net::Fd> OpenLock(const std::string& path) const;
  absl::StatusOr<std::optional<gateway::net::Fd>> TryLock(const std::string& path) const;
  absl::StatusOr<StoredEntry> Describe(const std::string& id, bool complete) const;
  absl::StatusOr<gateway::net::Fd> LockStore(int how) const;
  absl::StatusOr<std::vector<StoredEntry>> ListLocked() const;
  // The caller holds the store's lock. False: it is in use.
  absl::StatusOr<bool> RemoveUnused(const StoreEntry& entry) const;
  absl::Status RemoveTree(const std::string& folder) const;
  uint64_t FreeBytes() const;

  std::string folder_;
};

// All files below it, in bytes.
uint64_t TreeBytes(const std::string& folder);

}  // namespace plugins::weights
