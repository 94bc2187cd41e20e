// A run's log: the output and errors of its processes, in one file that they write themselves.
//
// They do not write to a pipe that the gateway reads, for they outlive the gateway. So the file cannot be
// renamed under them. It is rotated by copying its end away and truncating it; the processes append, and go
// on at its new end. Output between the end of the copy and the truncation is lost: microseconds of a flood.
// Blocks; off the loop.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstdint>
#include <span>
#include <string>

#include "gateway/net/fd.h"

namespace plugins::launchers {

// Mode 0600, appending.
absl::StatusOr<gateway::net::Fd> OpenLog(const std::string& path);

uint64_t LogBytes(const std::string& path);
std::string RotatedLog(const std::string& path);  // PATH.1

// Moves at most the last `keep_bytes` to PATH.1, in place of what was there.
absl::Status RotateLog(const std::string& path, uint64_t keep_bytes);

// Its last lines, at most kTailLines and kTailBytes together, as valid UTF-8 on one line, with "***" for each
// of `secrets`. Empty when nothing was printed.
inline constexpr size_t kTailLines = 5;
inline constexpr size_t kTailBytes = 800;
std::string LogTail(const std::string& path, std::span<const std::string> secrets);

}  // namespace plugins::launchers
