// GrowingFile: a file that is written in order, and its hash so far, with what an earlier process has left of
// it. Blocks; one thread at a time.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "gateway/net/fd.h"
#include "plugins/weights/digest.h"

namespace plugins::weights {

class GrowingFile {
 public:
  static constexpr size_t kBlock = 1U << 20;  // written at a time

  explicit GrowingFile(std::string path) : path_(std::move(path)) {}

  // Reads what is there. 0 bytes: nothing was.
  absl::Status Open();
  uint64_t size() const { return size_ + block_.size(); }
  // On the disk, or given to the system for it.
  uint64_t written() const { return size_; }

  // ResourceExhausted: the disk, or a limit of files, is full.
  absl::Status Add(std::string_view bytes);
  absl::Status Flush();
  absl::Status Restart();
  // The SHA-256 of all; it is on the disk then.
  absl::StatusOr<std::string> Finish();

 private:
  const std::string path_;
  gateway::net::Fd fd_;
  uint64_t size_ = 0;
  std::string block_;
  Hasher hasher_;
};

}  // namespace plugins::weights
