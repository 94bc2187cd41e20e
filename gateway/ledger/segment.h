// Segments: the files `NNNNNNNNNNNNNNNNNNNN.jsonl` of a ledger, each named by its first sequence number. Only
// the last one grows; it is sealed by a checkpoint that says so and is never written again.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gateway/ledger/file_ops.h"

namespace gateway::ledger {

struct SegmentName {
  uint64_t first_seq = 0;
  std::string path;
};

std::string SegmentPath(std::string_view dir, uint64_t first_seq);
// A file that is to be the next segment, made beforehand.
std::string SparePath(std::string_view dir);

// In order of sequence; other files are ignored.
absl::StatusOr<std::vector<SegmentName>> ListSegments(const std::string& dir);

// Reads whole lines of a file that another thread or process may be appending to. Not shared between threads.
// A line longer than kMaxLine is an error, since no record is that long.
class LineReader {
 public:
  static constexpr size_t kMaxLine = 4 * 1024 * 1024;

  static absl::StatusOr<LineReader> Open(const std::string& path, uint64_t offset = 0);

  // The next whole line, without its newline, valid until the next call; nothing when there is none yet.
  absl::StatusOr<std::optional<std::string_view>> Next();

  // Where the line after the last returned one begins; the bytes there may be a part of a line.
  uint64_t offset() const { return offset_; }
  // Bytes after offset() that are not a whole line, once Next() has returned nothing.
  uint64_t partial() const { return filled_ - begin_; }
  const std::string& path() const { return path_; }

 private:
  LineReader(std::string path, net::Fd file, uint64_t offset)
      : path_(std::move(path)), file_(std::move(file)), offset_(offset) {}

  std::string path_;
  net::Fd file_;
  std::string buffer_;
  size_t begin_ = 0;   // of the next line in buffer_
  size_t filled_ = 0;  // valid bytes of buffer_
  size_t seen_ = 0;    // bytes after begin_ known to hold no newline
  uint64_t offset_;
};

// The growing file. Owned by the ledger thread.
class SegmentWriter {
 public:
  SegmentWriter(net::Fd file, uint64_t size, std::string path, FileOps* files)
      : file_(std::move(file)), size_(size), path_(std::move(path)), files_(files) {}

  // A new segment, made of the spare file if there is one; its name is durable.
  static absl::StatusOr<SegmentWriter> Create(const std::string& dir, uint64_t first_seq, FileOps* files);
  // Creates the spare file, with room of its own, unless it exists.
  static absl::Status MakeSpare(const std::string& dir, uint64_t room, FileOps* files);
  // Opens the last segment, to append after its first `size` bytes.
  static absl::StatusOr<SegmentWriter> Continue(const std::string& path, uint64_t size, FileOps* files);

  // Appends `batch` and syncs. After a failure the size is as before, and the caller must give the same batch
  // again: all of it is written again, because after a failed sync it is unknown which bytes reached the
  // disk.
  absl::Status Append(std::string_view batch);

  // Takes room on the disk for that many bytes after the end, so that a full disk takes records still. It is
  // taken anew when half of it is used; without room on the disk, when there is some again.
  void KeepRoom(uint64_t bytes);
  // Nothing more is appended.
  void GiveRoomBack();

  uint64_t size() const { return size_; }
  const std::string& path() const { return path_; }

 private:
  void ForgetPages();

  net::Fd file_;
  uint64_t size_;
  uint64_t forgotten_ = 0;  // bytes from the front that may have left the page cache
  uint64_t reserved_ = 0;   // bytes from the front that have their room on the disk
  std::string path_;
  FileOps* files_;
};

}  // namespace gateway::ledger
