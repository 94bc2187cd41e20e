// PlaceReader: reads a file from its place, in the folder or in the bucket, piece by piece from its beginning.
//
// Errors of both calls: NotFound (the bytes are gone), Unavailable (the bucket does not answer), DataLoss (they were
// changed, are too few, or are sealed under another key), others of the disk or of the bucket.
//
// Owner: the caller's frame. Thread: the loop's; what blocks runs beside it. Memory: one piece.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <memory>
#include <optional>
#include <string>

#include "gateway/batches/files.h"
#include "gateway/batches/frame_reader.h"
#include "gateway/batches/kept_file.h"
#include "gateway/net/loop.h"
#include "plugins/weights/s3_bucket.h"

namespace gateway::batches {

class PlaceReader {
 public:
  PlaceReader(net::Loop& loop, Files::Place place);

  // First.
  net::Task<absl::Status> Open();
  // The next piece, in place of what is in `piece`; empty: there is no more.
  net::Task<absl::Status> Next(std::string& piece);

 private:
  net::Task<absl::Status> OpenObject();
  net::Task<absl::Status> NextOfObject(std::string& piece);

  net::Loop& loop_;
  const Files::Place place_;
  uint64_t read_ = 0;
  std::optional<KeptFile> file_;
  std::optional<plugins::weights::S3Bucket> bucket_;
  size_t object_ = 0;  // of those of the place, that is read now
  std::unique_ptr<plugins::weights::Web::Connection> connection_;
  FrameReader frames_;
};

// All of it; blocks. ResourceExhausted: more than `most_bytes`.
absl::StatusOr<std::string> ReadPlace(Files::Place place, uint64_t most_bytes);

}  // namespace gateway::batches
