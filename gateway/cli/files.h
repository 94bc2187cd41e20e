// Files that a command reads whole, and files that it writes at its end. A path is checked before the work
// begins; the file is written beside it and renamed, so that a reader sees the old content or the new.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstddef>
#include <string>
#include <string_view>

namespace gateway::cli {

// Also from a pipe or a device. A folder, or more than `most` bytes, is an error; errors name the file.
absl::StatusOr<std::string> ReadWhole(const std::string& path, size_t most);

// The key in the file, without its line's end; without a path, the value of the environment variable (null: none).
// Empty: no key is given. InvalidArgument names the option that gave the path.
absl::StatusOr<std::string> ReadApiKey(const std::string& path, std::string_view option,
                                       const char* variable);

// The reason why the file cannot be written, found by trying; empty if it can. Leaves nothing behind.
std::string WhyNotWritable(const std::string& path);

// Replaces the file as a whole and keeps its mode; writes directly into a pipe or a device. After an error, a
// file still has its old content.
absl::Status WriteWhole(const std::string& path, std::string_view text);

// To standard output. The error is OutputError().
absl::Status Print(std::string_view text);

}  // namespace gateway::cli
