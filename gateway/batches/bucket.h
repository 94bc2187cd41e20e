// Bucket: the bucket that the configuration names for the bytes of files; new files go there.
//
// Transfers run on a thread of their own each. An object is tried again while it makes sense for somebody who
// waits; the errors are those of plugins/weights/s3_bucket.h, and FailedPrecondition: no bucket is configured.
//
// Owner: Files. Thread: the loop's.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "conf/time.h"
#include "gateway/config/batches.h"
#include "gateway/net/loop.h"
#include "plugins/weights/s3_bucket.h"

namespace gateway::batches {

class Bucket {
 public:
  using Access = std::shared_ptr<const plugins::weights::S3Bucket::Options>;

  // `loop` must outlive it.
  Bucket(net::Loop& loop, std::function<std::optional<config::Files>()> options);

  bool configured() const;
  // The name of a new file's object.
  std::string ObjectFor(std::string_view id) const;
  // What a connection to it needs. Any thread may use it.
  net::Task<absl::StatusOr<Access>> Open();

  using Piece = plugins::weights::S3Bucket::Piece;
  net::Task<absl::Status> Put(std::string path, std::string object, Piece piece = {});
  // At `path` when it returns, whole and synced.
  net::Task<absl::Status> Get(std::string object, std::string path);
  // One try.
  net::Task<absl::Status> Remove(std::string object);
  // Transfers end with Cancelled at their next piece.
  void Stop() { stopped_ = true; }

 private:
  using Transfer = std::function<net::Task<absl::Status>(plugins::weights::S3Bucket&)>;
  net::Task<absl::Status> Run(int tries, conf::Duration silence, Transfer transfer);
  absl::Status GoOn() const;

  net::Loop& loop_;
  const std::function<std::optional<config::Files>()> options_;
  Access access_;
  std::string access_of_;  // a hash of the options that it was made of
  conf::TimePoint access_at_{};
  std::atomic<bool> stopped_{false};
};

}  // namespace gateway::batches
