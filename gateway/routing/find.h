// Finds a request in the files of the routing log.
#pragma once

#include <absl/status/statusor.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gateway/routing/parse.h"

namespace gateway::routing {

// The existing files of a log, the newest first; always includes the one that is written.
std::vector<std::string> LogPaths(const std::string& state_dir, uint32_t files);

// The last line of the request in the file; of any request, if `request` is empty. Skips lines that a crash has cut.
// Reads backwards, one block at a time. Errors: the file cannot be read.
absl::StatusOr<std::optional<LoggedRequest>> FindRequest(const std::string& path, std::string_view request);

}  // namespace gateway::routing
