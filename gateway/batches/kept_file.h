// KeptFile: the bytes of a file as they lie on the disk: as they are, or sealed under the content key of their
// tenant, so that a disk or a backup shows nothing, and erasing the key erases them.
//
// Sealed text lies in frames (frame.h). A frame is never changed. An Append that a crash has cut short leaves an
// incomplete frame at the end, which does not count. Bytes and offsets are those of the text.
//
// All calls block. One thread at a time. Memory: 16 bytes a frame, and one frame's text.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gateway/batches/result_part.h"
#include "gateway/ledger/content_keys.h"
#include "gateway/net/fd.h"

namespace gateway::batches {

class KeptFile {
 public:
  // An empty one; AlreadyExists: there is a file. `key`: null: its bytes lie there as they are.
  static absl::StatusOr<KeptFile> Create(std::string path, ledger::ContentKeyRef key);
  enum class Access : uint8_t { kRead, kAppend };
  // kAppend makes it where it is missing. DataLoss: nothing in it was sealed under this key.
  static absl::StatusOr<KeptFile> Open(std::string path, ledger::ContentKeyRef key, Access access);

  uint64_t bytes() const { return bytes_; }
  FileExtent extent() const { return {.bytes = bytes_, .stored = disk_}; }
  // Fills `out` from `offset` on; fewer bytes only at the end. Returns their number. DataLoss: a frame was
  // changed, or sealed under another key.
  absl::StatusOr<size_t> ReadAt(uint64_t offset, std::span<char> out);
  // At the end. After an error a part may be there: CutTo.
  absl::Status Append(std::string_view text);
  absl::Status Sync() const;
  // Leaves the first `bytes`.
  absl::Status CutTo(uint64_t bytes);

 private:
  struct Frame {
    uint64_t text = 0;  // where it begins; ...
    uint64_t disk = 0;  // ... and on the disk
  };

  KeptFile(std::string path, ledger::ContentKeyRef key, net::Fd fd)
      : path_(std::move(path)), key_(std::move(key)), fd_(std::move(fd)) {}

  absl::Status FindFrames();
  absl::Status ReadFrame(size_t frame);  // into opened_
  uint64_t EndOf(size_t frame) const;    // in the text
  absl::Status Truncate(uint64_t disk);

  std::string path_;
  ledger::ContentKeyRef key_;
  net::Fd fd_;
  uint64_t bytes_ = 0;
  uint64_t disk_ = 0;  // bytes there
  std::vector<Frame> frames_;
  size_t opened_frame_ = SIZE_MAX;
  std::string opened_;
};

}  // namespace gateway::batches
