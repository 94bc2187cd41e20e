// A run's log: what its processes print, both outputs, in one file that they write themselves.
//
// They do not write to a pipe that the gateway reads, for they must outlive it. So the file cannot be renamed
// from under them, and is rotated by copying its end away and cutting it to nothing; they append, and go on
// at its new end. What they print between the copy's end and the cut is lost: microseconds of a flood.
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

// Its last lines, at most kTailLines of kTailBytes together, as valid UTF-8 on one line; each of `secrets` is
// left out. Empty when it printed nothing.
inline constexpr size_t kTailLines = 5;
inline constexpr size_t kTailBytes = 800;
std::string LogTail(const std::string& path, std::span<const std::string> secrets);

}  // namespace plugins::launchers
