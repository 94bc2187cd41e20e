// BucketRemovals: objects in the bucket that no file needs, each with a record in the store until it is gone. So a
// bucket that does not answer, and a crash between two steps, leave nothing there for ever and remove nothing
// that a file needs:
//
//   an upload   record, object; then one commit makes the file and forgets the record
//   a removal   one commit forgets the file and makes the record; then the object goes, then the record
//
// Before an object goes, its record is written again: a commit whose outcome was not known, and which would
// have made a file of it, fails from then on.
//
// Records of shared files are of all gateways. One that is not decided is left to the gateway that wrote it as long
// as that lives.
//
// Owner: Files. Thread: the loop's.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "gateway/batches/bucket.h"
#include "gateway/batches/sharing.h"
#include "gateway/net/loop.h"
#include "gateway/net/watchdog.h"
#include "gateway/store/store.h"
#include "gateway/store/stored_copy.h"

namespace gateway::batches {

struct BucketRemoval {
  std::string object = {};  // its name in the bucket
  bool decided = false;     // it is no file's any more
  std::string holder = {};  // the id of the gateway that uploads it, of a shared file
};
std::string EncodeRemoval(const BucketRemoval& removal);
absl::StatusOr<BucketRemoval> DecodeRemoval(std::string_view json);

class BucketRemovals {
 public:
  // All must outlive it. `sharing`: null: the records are of this gateway's own files.
  BucketRemovals(net::Loop& loop, store::Store& store, Bucket& bucket, const Sharing* sharing = nullptr);

  net::Task<absl::Status> Start() { return copy_.Start(); }
  void Begin();
  void Stop();

  // Records the object of a file that is to be uploaded; it stays until Release. Unavailable: an earlier one of
  // that file is being removed, or the store cannot be written.
  net::Task<absl::Status> Hold(std::string id, std::string object);
  // What belongs into the commit that makes the file; after Hold.
  store::Write Forgetting(const std::string& id) const;
  // The commit has come to an end. If the record is still there, the object goes.
  void Release(const std::string& id);

  // What belongs into the commit that removes a file; Wake() begins with it.
  store::Write Noting(const std::string& id, const std::string& object) const;
  void Wake();

  size_t count() const { return copy_.all().size(); }

 private:
  const char* kind() const;
  bool IsDue(const std::string& id, const BucketRemoval& removal) const;
  net::Task<void> Run();
  net::Task<absl::Status> RemoveOne(std::string id);

  net::Loop& loop_;
  store::Store& store_;
  Bucket& bucket_;
  const Sharing* const sharing_;
  store::StoredCopy<BucketRemoval> copy_;
  std::map<std::string, uint64_t, std::less<>> held_;  // versions of their records
  std::string removing_;                               // id
  bool woken_ = false;                                 // since the records were looked at
  bool told_ = false;                                  // that the bucket does not answer
  bool stopped_ = false;
  net::Sleep pause_;
};

}  // namespace gateway::batches
