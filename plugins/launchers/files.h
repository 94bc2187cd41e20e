// Small files that must survive a kill and a power cut. Blocking: off the loop, or before it runs. Errors
// name the file and what the system said: Unavailable, NotFound.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <string>
#include <string_view>

#include "gateway/net/fd.h"

namespace plugins::launchers {

absl::Status SystemError(std::string_view what, std::string_view path, int error);

absl::StatusOr<gateway::net::Fd> OpenFile(const std::string& path, int flags);  // new ones with mode 0600
absl::StatusOr<std::string> ReadSmallFile(const std::string& path, size_t max_bytes);
// A reader sees the old content or the new, whole. Durable when it returns; else nothing has changed.
absl::Status ReplaceFile(const std::string& path, std::string_view content);
// Mode 0700, with its parents; durable.
absl::Status MakeDirectory(const std::string& path);
absl::Status SyncDirectory(const std::string& path);

}  // namespace plugins::launchers
