// Files that a command reads whole, and files that it leaves when it is done: found fit before the work
// begins, written beside and renamed, so that there is the old content or the new, never a half.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstddef>
#include <string>
#include <string_view>

namespace gateway::cli {

// Errors say only why: the caller names the file. A folder, or more than `most` bytes, is refused.
absl::StatusOr<std::string> ReadWhole(const std::string& path, size_t most);

// Why nothing could be written there, tried out; empty: it can. Leaves nothing behind.
std::string WhyNotWritable(const std::string& path);

// Replaces the file as a whole and keeps its mode; into what is no plain file (a pipe, a device) it writes
// directly. "PATH: why" when it cannot; what was there before then still is.
absl::Status WriteWhole(const std::string& path, std::string_view text);

// To standard output, all of it, or why not: a full disk behind it is no success.
absl::Status Print(std::string_view text);

}  // namespace gateway::cli
