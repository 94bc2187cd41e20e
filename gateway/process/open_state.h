// The store of a state folder, for the process and for the commands that work beside it.
#pragma once

#include <absl/status/statusor.h>

#include <memory>
#include <string>

#include "gateway/net/loop.h"
#include "gateway/store/store.h"

namespace gateway {

// Makes the folder and the store when they are missing, and takes over what an earlier version left there.
// Blocks; before anything is served.
absl::StatusOr<std::unique_ptr<store::Store>> OpenState(net::Loop& loop, const std::string& state_dir);

}  // namespace gateway
