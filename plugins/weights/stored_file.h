// Files of weights in a store, opened so that no link leads elsewhere: engines' users may write below the store.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "gateway/net/fd.h"

namespace plugins::weights {

struct StoredFile {
  gateway::net::Fd fd{};
  uint64_t bytes = 0;
};

// The regular file at `path` below `folder`; no part of the path below it may be a symbolic link. Errors name the
// file: NotFound; FailedPrecondition, it is no regular file or behind a link. Blocks.
absl::StatusOr<StoredFile> OpenBelow(const std::string& folder, std::string_view path);

}  // namespace plugins::weights
