// Finds a request in the files of the routing log.
#pragma once

#include <absl/status/statusor.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gateway/routing/parse.h"

namespace gateway::routing {

// The files of a log that exist, the newest first; at least the one that is written.
std::vector<std::string> LogPaths(const std::string& state_dir, uint32_t files);

// The last line of the request in the file, or of any request where `request` is empty. Lines that a crash has cut
// short are passed over. Reads backwards, a block at a time. Errors: the file cannot be read.
absl::StatusOr<std::optional<LoggedRequest>> FindRequest(const std::string& path, std::string_view request);

}  // namespace gateway::routing
