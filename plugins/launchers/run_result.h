// RunResult: what the wrapper of a run has written down of it (wrapper/protocol.h): when its first process
// began, when the last one was gone, and how the first one ended.
//
// The wrapper writes in place, into blocks that were allocated before the run started, so that a full disk
// cannot keep it from doing so. Blocks: off the loop, or before it runs.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "conf/time.h"

namespace plugins::launchers {

struct RunResult {
  struct Beginning {
    pid_t child = 0;  // the run's first process, which leads its session
    uint64_t child_ticks = 0;
    conf::TimePoint started{};
  };
  struct End {
    conf::TimePoint ended{};
    std::optional<int> exit_code{};
    std::optional<int> signal{};
    bool killed = false;  // not all of the run ended before it was sent SIGKILL
  };
  std::optional<Beginning> beginning{};
  std::optional<End> end{};
  // When the wrapper was last there, late by a hundredth of the run's age (1 s to 60 s).
  conf::TimePoint last_alive{};
};

// Durable when the folder is. Unavailable, with the file's name, when there is no room for it.
absl::Status MakeResultFile(const std::string& path);

// NotFound: there is no such file. A line that is missing or cut leaves its part of the result empty.
absl::StatusOr<RunResult> ReadResultFile(const std::string& path);
// Reads the file's content alone, without `last_alive`.
RunResult ParseResult(std::string_view content);

}  // namespace plugins::launchers
