// A member's output, as a file that grows. Blocks on the disk.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <optional>
#include <string>

namespace gateway::control {

inline constexpr size_t kMostLog = 256 * 1024;  // bytes of an answer

struct JobLog {
  std::string text{};
  uint64_t next = 0;  // the byte of the output after it
  bool cut = false;   // there is more before it that was not asked for
};

struct WhichLog {
  uint32_t rank = 0;
  bool before = false;             // of the attempt before
  std::optional<uint64_t> from{};  // a byte; none: its last `bytes`
  size_t bytes = kMostLog;         // at most
};

// A file's end is given from the start of a line where one begins in it. What has been made anew since, and
// is shorter than `from`, is read from its start.
absl::StatusOr<JobLog> ReadJobLog(const std::string& path, const WhichLog& which);

}  // namespace gateway::control
