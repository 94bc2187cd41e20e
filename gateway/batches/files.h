// Files: what applications keep here: bytes in a folder of state_dir or in a bucket, what is known of them in
// the store.
//
// A file is 0600, named by its id, and there before the store has it; the store forgets it before it is
// removed. With a bucket, the folder has uploads that are not whole yet, the results of running batches, and
// copies of their inputs. Files from before the bucket was configured stay in the folder. Each tenant has at most so
// many files and bytes, those that are being uploaded here included. A file of another tenant does not exist.
//
// Where other gateways use the store and a bucket is configured, new files are shared: each of these gateways
// answers for them. Files from before stay those of their gateway.
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
#include "gateway/batches/both_copies.h"
#include "gateway/batches/bucket.h"
#include "gateway/batches/bucket_removals.h"
#include "gateway/batches/result_part.h"
#include "gateway/batches/shared_keys.h"
#include "gateway/batches/sharing.h"
#include "gateway/batches/stored_file.h"
#include "gateway/config/batches.h"
#include "gateway/ledger/content_keys.h"
#include "gateway/net/loop.h"
#include "gateway/store/store.h"

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
        std::function<std::optional<config::Files>()> options, Sharing sharing = {});

  net::Task<absl::Status> Start();
  // Removes what was to be removed from the bucket before.
  void Begin();
  void Stop();

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
    std::string path;                       // to write to; 0600
    ledger::ContentKeyRef key;              // as KeptFile has it
    uint64_t most_bytes;                    // that it may have
    std::vector<std::string> objects = {};  // in the bucket, one behind the other; none: it is at `path`
    Bucket::Access bucket = {};
  };
  // Holds room for a file of at most `bytes`, until Keep or Abandon.
  net::Task<Result<Place>> Hold(std::string tenant, uint64_t bytes);
  // New files are shared with other gateways.
  bool shares() const { return sharing_.shared() && bucket_.configured(); }
  const Sharing& sharing() const { return sharing_; }
  // The key under which a new file of the tenant is sealed; null: it is not.
  net::Task<absl::StatusOr<ledger::ContentKeyRef>> KeyFor(std::string tenant, bool shared);
  // That of `sealed_by`. FailedPrecondition: it was erased, and what it sealed with it; Unavailable: this gateway
  // lacks the master key under which another has wrapped it.
  absl::StatusOr<ledger::ContentKeyRef> KeyOf(const std::string& sealed_by) const;
  // Destroys the keys of shared files of a tenant and of those below it; of none: nothing is shared.
  net::Task<absl::StatusOr<std::vector<SharedKey>>> EraseShared(std::string tenant, std::string by,
                                                                std::string reason);
  // Of a file that is kept or being uploaded.
  absl::StatusOr<ledger::ContentKeyRef> KeyOfFile(const std::string& id) const;
  // The bytes are written and synced at UploadPathOf.
  net::Task<Result<StoredFile>> Keep(Upload upload, conf::TimePoint now);
  net::Task<void> Abandon(std::string id);
  std::string UploadPathOf(std::string_view id) const;

  // Takes synced bytes from `path` to where files lie, and says so in `file`. The writes make it a file; Settle
  // must follow their commit. Unavailable: another try makes sense; the bytes are still at `path`.
  net::Task<absl::StatusOr<std::vector<store::Write>>> Move(StoredFile& file, std::string path);
  // `failed`: the commit has changed nothing, for sure.
  net::Task<void> Settle(StoredFile file, std::string path, bool failed);

  // Parts of results of shared batches. Uploads the bytes between two extents of the result file at `path`; it
  // counts once Counting(part) is committed, and Release(part) must follow.
  net::Task<absl::StatusOr<ResultPart>> PutPart(std::string file, std::string path, FileExtent from,
                                                FileExtent to);
  store::Write Counting(const ResultPart& part) const;
  void Release(const ResultPart& part);
  // What belongs into the commit by which a part is needed no more.
  store::Write Discarding(const ResultPart& part) const;
  // After such a commit, unless Release follows.
  void WakeRemovals();
  // By which a file of parts that count already is made.
  store::Write Making(const StoredFile& file) const;
  // Makes the file at `path` of its parts, unless it has them all.
  net::Task<absl::Status> Assemble(ResultParts parts, std::string path);
  // Where the results of a batch lie while a gateway runs it in that epoch.
  std::string RunPathOf(std::string_view file, uint64_t epoch) const {
    return PathOf(RunNameOf(file, epoch));
  }
  static std::string RunNameOf(std::string_view file, uint64_t epoch);
  net::Task<absl::Status> RemoveBytes(std::string path);

  // Null: the tenant has none of that id.
  const StoredFile* Find(std::string_view tenant, std::string_view id, conf::TimePoint now) const;
  std::vector<const StoredFile*> OfTenant(std::string_view tenant, conf::TimePoint now) const;
  net::Task<Result<StoredFile>> Remove(std::string tenant, std::string id, std::string key,
                                       conf::TimePoint now);

  // Where the bytes of a file are. FailedPrecondition: the content was erased; Unavailable: its bucket is not
  // configured, its certificates cannot be read, or its key cannot.
  net::Task<absl::StatusOr<Place>> PlaceOf(StoredFile file);
  // The path of a file whose bytes are in the folder, or of a copy there of those in the bucket; it stays as
  // long as the sweep is told that it is used, or until DropCopy. NotFound: no file, or no object.
  net::Task<absl::StatusOr<std::string>> CopyHere(std::string id);
  net::Task<void> DropCopy(std::string id);
  net::Task<absl::Status> CatchUp() { return copy_.CatchUp(); }
  // With what other gateways have changed.
  net::Task<absl::Status> CatchUpShared();

  // Removes those that are too old, the remains of uploads, and copies of what is in the bucket; `used`: ids that
  // must stay.
  net::Task<void> Sweep(std::set<std::string> used, conf::TimePoint now);

  std::string PathOf(std::string_view id) const;
  conf::Duration max_age() const;
  const std::function<std::optional<config::Files>()>& options() const { return options_; }
  uint64_t bytes() const;
  size_t count() const { return copy_.size(); }
  size_t removals() const { return removals_.count() + (shared_removals_ ? shared_removals_->count() : 0); }

 private:
  struct Held {
    std::string tenant;
    uint64_t bytes = 0;
    std::string sealed_by;
    bool shared = false;
  };
  BucketRemovals& RemovalsOf(bool shared) { return shared ? *shared_removals_ : removals_; }
  const BucketRemovals& RemovalsOf(bool shared) const { return shared ? *shared_removals_ : removals_; }
  std::vector<store::Write> RemovalOf(const StoredFile& file, std::string_view action,
                                      const std::string& actor) const;
  net::Task<void> Removed(StoredFile file);

  net::Loop& loop_;
  store::Store& store_;
  ledger::ContentKeys* const keys_;
  const std::string dir_;
  const std::function<std::optional<config::Files>()> options_;
  const Sharing sharing_;
  BothCopies<StoredFile> copy_;
  Bucket bucket_;
  BucketRemovals removals_;
  std::optional<BucketRemovals> shared_removals_;  // nothing: no other gateway uses the store
  std::optional<SharedKeys> shared_keys_;          // likewise, or nothing is sealed
  absl::flat_hash_map<std::string, Held> held_;    // uploads, by id
  std::set<std::string> copying_;                  // names in the folder
  uint64_t copies_ = 0;                            // made until now
};

}  // namespace gateway::batches
