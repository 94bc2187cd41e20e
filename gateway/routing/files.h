// Where the routing log stands: routing.jsonl, the newest lines last, and those that were closed before it,
// routing.1.jsonl being the latest of these.
#pragma once

#include <absl/status/status.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "gateway/ledger/files.h"

namespace gateway::routing {

// The path of the n-th file, 0 being the one that is written.
std::string LogPath(const std::string& state_dir, uint32_t n);

// Appends whole lines. A file that would grow beyond its size gives way to a new one, and the oldest goes.
// What a crash has torn is closed by a line end, so that what follows can be read. One thread.
class LogFiles {
 public:
  explicit LogFiles(std::string state_dir) : state_dir_(std::move(state_dir)) {}

  // After an error the lines may be there in part; the next call begins anew.
  absl::Status Append(std::string_view lines, uint64_t file_bytes, uint32_t files);

 private:
  absl::Status Open();
  absl::Status Rotate(uint32_t files);
  absl::Status Write(std::string_view text);

  const std::string state_dir_;
  ledger::Fd file_;
  uint64_t size_ = 0;
};

}  // namespace gateway::routing
