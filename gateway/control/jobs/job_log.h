// A member's output, as a file that grows. Blocks on the disk.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "plugins/launchers/run_log.h"

namespace gateway::control {

inline constexpr size_t kMostLog = 256 * 1024;  // bytes of an answer

struct JobLog {
  std::string text{};
  uint64_t next = 0;  // the first byte after this answer
  bool cut = false;   // the output has earlier bytes that were not requested
};

struct WhichLog {
  uint32_t rank = 0;
  bool before = false;             // the output of the previous attempt
  std::optional<uint64_t> from{};  // first byte; none: the last `bytes`
  size_t bytes = kMostLog;         // at most
};

// The end of a file starts at a line's beginning where there is one. A file that was replaced by a shorter
// one than `from` is read from its start.
absl::StatusOr<JobLog> ReadJobLog(const std::string& path, const WhichLog& which,
                                  plugins::launchers::LogOwner owner);

// The same for an output that the launcher returns as a text.
JobLog PartOfLog(std::string_view text, const WhichLog& which);

}  // namespace gateway::control
