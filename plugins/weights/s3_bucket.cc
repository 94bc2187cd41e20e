#include "plugins/weights/s3_bucket.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <utility>

#include "conf/text.h"
#include "gateway/net/files.h"
#include "plugins/weights/credentials.h"
#include "plugins/weights/digest.h"
#include "plugins/weights/download.h"

namespace plugins::weights {

using gateway::net::Task;

namespace {

constexpr size_t kHashedPiece = 1U << 20;
constexpr size_t kMostAnswer = 64U << 10;  // to a PUT or a DELETE

absl::StatusOr<std::string> HashOf(int fd, const std::string& path, uint64_t from, uint64_t bytes,
                                   const S3Bucket::GoOn& go_on) {
  Hasher hasher;
  std::string piece;
  for (uint64_t at = 0; at < bytes; at += piece.size()) {
    if (absl::Status stopped = go_on(); !stopped.ok()) return stopped;
    piece.resize(std::min<uint64_t>(kHashedPiece, bytes - at));
    const absl::StatusOr<size_t> read = gateway::net::ReadAt(fd, path, from + at, piece);
    if (!read.ok()) return read.status();
    if (*read < piece.size())
      return absl::DataLossError(conf::Abseil(fmt::format("{} became shorter while it was read", path)));
    hasher.Update(piece);
  }
  return hasher.TakeHex();
}

}  // namespace

S3Bucket::S3Bucket(gateway::net::Loop& loop, const Options& options)
    : base_(S3BucketUrl(options.endpoint, options.bucket)),
      credentials_(SigningOf(options.keys)),
      web_(loop, options.web) {}

WebRequest S3Bucket::RequestFor(std::string method, const std::string& key) const {
  return {.method = std::move(method),
          .url = fmt::format("{}/{}", base_, EncodeS3Key(key)),
          .credentials = credentials_};
}

Task<absl::Status> S3Bucket::Put(std::string key, std::string path, Piece piece, GoOn go_on) {
  const absl::StatusOr<gateway::net::Fd> file = gateway::net::OpenFile(path, O_RDONLY | O_NOFOLLOW);
  if (!file.ok()) co_return file.status();
  const absl::StatusOr<uint64_t> size = gateway::net::FileSize(file->get(), path);
  if (!size.ok()) co_return size.status();
  if (*size < piece.from + piece.bytes.value_or(0))
    co_return absl::DataLossError(conf::Abseil(fmt::format("{} has only {} bytes", path, *size)));
  const uint64_t bytes = piece.bytes.value_or(*size - piece.from);
  if (bytes > kMostBytes) {
    co_return absl::InvalidArgumentError(
        conf::Abseil(fmt::format("{} has {} bytes; an object has at most {}", path, bytes, kMostBytes)));
  }
  absl::StatusOr<std::string> hash = HashOf(file->get(), path, piece.from, bytes, go_on);
  if (!hash.ok()) co_return hash.status();
  WebRequest request = RequestFor("PUT", key);
  request.body = {
      .bytes = bytes,
      .sha256 = *std::move(hash),
      .read = [&](uint64_t offset, std::span<char> out) -> absl::Status {
        if (absl::Status stopped = go_on(); !stopped.ok()) return stopped;
        const absl::StatusOr<size_t> read = gateway::net::ReadAt(file->get(), path, piece.from + offset, out);
        if (!read.ok()) return read.status();
        return *read == out.size() ? absl::OkStatus() : absl::DataLossError("the file became shorter");
      }};
  co_return (co_await web_.Ask(std::move(request), kMostAnswer)).status();
}

Task<absl::Status> S3Bucket::Get(std::string key, std::string path, GoOn go_on) {
  DownloadHooks hooks;
  hooks.on_transfer = [&go_on](uint64_t) { return go_on(); };
  DownloadFile file{.request = RequestFor("GET", key), .path = path, .tag = path + ".etag", .name = key};
  const absl::StatusOr<std::string> got = co_await Download(web_, std::move(file), std::move(hooks));
  if (!got.ok()) co_return got.status();
  co_return gateway::net::RemoveFile(path + ".etag");
}

Task<absl::Status> S3Bucket::Remove(std::string key) {
  const absl::Status removed = (co_await web_.Ask(RequestFor("DELETE", key), kMostAnswer)).status();
  if (!absl::IsNotFound(removed)) co_return removed;
  // Some servers answer so if the object is missing, others only if the bucket is.
  const WebRequest bucket{.method = "HEAD", .url = base_, .credentials = credentials_};
  const absl::Status there = (co_await web_.Ask(bucket, kMostAnswer)).status();
  co_return absl::IsNotFound(there) || absl::IsUnavailable(there) ? there : absl::OkStatus();
}

Task<absl::StatusOr<std::unique_ptr<Web::Connection>>> S3Bucket::Open(std::string key) {
  const WebRequest request = RequestFor("GET", key);
  co_return co_await web_.Open(request);
}

}  // namespace plugins::weights
