// The files of the routing log: routing.jsonl, with the newest lines last, and older files; routing.1.jsonl is the
// newest of these.
#pragma once

#include <absl/status/status.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "gateway/net/fd.h"

namespace gateway::routing {

// The path of the n-th file; 0 is the one that is written.
std::string LogPath(const std::string& state_dir, uint32_t n);

// Appends whole lines. When a file would exceed its size, it begins a new one and removes the oldest. It ends a line
// that a crash has cut, so that the lines after it can be read. One thread.
class LogFiles {
 public:
  explicit LogFiles(std::string state_dir) : state_dir_(std::move(state_dir)) {}

  // After an error, a part of the lines may be written; the next call opens the file again.
  absl::Status Append(std::string_view lines, uint64_t file_bytes, uint32_t files);

 private:
  absl::Status Open();
  absl::Status Rotate(uint32_t files);
  absl::Status Write(std::string_view text);

  const std::string state_dir_;
  net::Fd file_;
  uint64_t size_ = 0;
};

}  // namespace gateway::routing
