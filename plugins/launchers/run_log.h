// A run's log: the output and errors of its processes, in one file.
//
// They print into a pipe that the run's wrapper reads, for both outlive the gateway. The wrapper keeps the
// log under its limit: a log that is full becomes PATH.1, in place of what was there. Blocks; off the loop.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstdint>
#include <span>
#include <string>

#include "gateway/net/fd.h"

namespace plugins::launchers {

// Mode 0600, appending; no link is followed.
absl::StatusOr<gateway::net::Fd> OpenLog(const std::string& path);

enum class LogOwner : uint8_t { kThisProcess, kAnyone };

// For reading. Refuses anything but a regular file with one name: a run can write in the folder of its log,
// and could put a link there, a second name of another file, or a pipe without a writer. For runs of this
// machine, whose logs belong to this process, it also refuses files of other users; a cluster's logs belong
// to another user.
absl::StatusOr<gateway::net::Fd> OpenLogForReading(const std::string& path,
                                                   LogOwner owner = LogOwner::kThisProcess);

uint64_t LogBytes(const std::string& path);
std::string RotatedLog(const std::string& path);  // PATH.1

// Its last lines, at most kTailLines and kTailBytes together, as valid UTF-8 on one line, with "***" for each
// of `secrets`. Lines that the step of weights prints for the gateway are left out. Empty when nothing was printed.
inline constexpr size_t kTailLines = 5;
inline constexpr size_t kTailBytes = 800;
std::string LogTail(const std::string& path, std::span<const std::string> secrets);

}  // namespace plugins::launchers
