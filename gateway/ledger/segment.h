// Segments: the files `NNNNNNNNNNNNNNNNNNNN.jsonl` of a ledger, each named by its first sequence number. Only the last
// one grows. A checkpoint that says so seals a segment, which is then never written again.
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
// The path of the spare file, which is created in advance and becomes the next segment.
std::string SparePath(std::string_view dir);

// In order of sequence; other files are ignored.
absl::StatusOr<std::vector<SegmentName>> ListSegments(const std::string& dir);

// Reads whole lines of a file to which another thread or process may be appending. Not shared between threads. A line
// longer than kMaxLine is an error, because no record is that long.
class LineReader {
 public:
  static constexpr size_t kMaxLine = 4 * 1024 * 1024;

  static absl::StatusOr<LineReader> Open(const std::string& path, uint64_t offset = 0);

  // The next whole line, without its newline, valid until the next call; none if there is no whole line yet.
  absl::StatusOr<std::optional<std::string_view>> Next();

  // Where the line after the last returned one begins; it may be incomplete.
  uint64_t offset() const { return offset_; }
  // The number of bytes of the incomplete line at offset(), once Next() has returned none.
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
  size_t seen_ = 0;    // bytes after begin_ that have no newline
  uint64_t offset_;
};

// The file that grows. Owned by the ledger thread.
class SegmentWriter {
 public:
  SegmentWriter(net::Fd file, uint64_t size, std::string path, FileOps* files)
      : file_(std::move(file)), size_(size), path_(std::move(path)), files_(files) {}

  // Begins a new segment, from the spare file if there is one; its name is durable.
  static absl::StatusOr<SegmentWriter> Create(const std::string& dir, uint64_t first_seq, FileOps* files);
  // Creates the spare file with reserved room, unless it exists.
  static absl::Status MakeSpare(const std::string& dir, uint64_t room, FileOps* files);
  // Opens the last segment, to append after its first `size` bytes.
  static absl::StatusOr<SegmentWriter> Continue(const std::string& path, uint64_t size, FileOps* files);

  // Appends `batch` and syncs. After a failure the size is unchanged, and the caller must pass the same batch again.
  // The whole batch is then written again, because after a failed sync it is unknown which bytes reached the disk.
  absl::Status Append(std::string_view batch);

  // Reserves disk room for that many bytes after the end, so that records can still be written when the disk is full.
  // Reserves again when half of it is used; if the disk is full, when it has room again.
  void KeepRoom(uint64_t bytes);
  // Gives the reserved room back; nothing more is appended.
  void GiveRoomBack();

  uint64_t size() const { return size_; }
  const std::string& path() const { return path_; }

 private:
  void ForgetPages();

  net::Fd file_;
  uint64_t size_;
  uint64_t forgotten_ = 0;  // bytes at the front that may have left the page cache
  uint64_t reserved_ = 0;   // bytes at the front for which the disk has room
  std::string path_;
  FileOps* files_;
};

}  // namespace gateway::ledger
