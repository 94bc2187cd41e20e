// S3Bucket: whole objects of one bucket, written, read and removed by the API of S3, with the bucket in the path.
// An object is there whole or not at all: S3 replaces it by one request.
//
// Errors are those of Web; NotFound: no such object or bucket.
//
// Thread: its loop's. Put and Get block it for the disk, so they are for a loop of their own.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "gateway/net/loop.h"
#include "plugins/weights/s3_signature.h"
#include "plugins/weights/web.h"

namespace plugins::weights {

class S3Bucket {
 public:
  // S3's own bound of an object that one request writes.
  static constexpr uint64_t kMostBytes = uint64_t{5} << 30;

  struct Options {
    std::string endpoint{};
    std::string bucket{};
    S3Keys keys{};
    Web::Options web{};
  };
  S3Bucket(gateway::net::Loop& loop, const Options& options);

  // `go_on`: asked between pieces; an error ends the transfer with it.
  using GoOn = std::function<absl::Status()>;
  // A piece of a file; without `bytes`, up to its end.
  struct Piece {
    uint64_t from = 0;
    std::optional<uint64_t> bytes = {};
  };
  // The file at `path`, or a piece of it, becomes the object.
  gateway::net::Task<absl::Status> Put(std::string key, std::string path, Piece piece, GoOn go_on);
  // The object becomes the file at `path`, synced; what is there is continued or replaced.
  gateway::net::Task<absl::Status> Get(std::string key, std::string path, GoOn go_on);
  // Ok if there is none.
  gateway::net::Task<absl::Status> Remove(std::string key);
  // Its bytes come by ReadSome().
  gateway::net::Task<absl::StatusOr<std::unique_ptr<Web::Connection>>> Open(std::string key);

 private:
  WebRequest RequestFor(std::string method, const std::string& key) const;

  const std::string base_;
  const std::shared_ptr<Credentials> credentials_;
  Web web_;
};

}  // namespace plugins::weights
