// BecomeUser: gives up root and all rights for good once the configuration is read and the launch broker
// stands beside.
#pragma once

#include <absl/status/status.h>

#include "gateway/config/server.h"

namespace gateway {

// Becomes `server.user`, if one is named, and makes its state_dir where it is missing. Whatever its user then
// is, root included, the process keeps only the capability to listen on ports below 1024, and programs that
// it starts have none other. FailedPrecondition: there is no such user, or it may not be become.
absl::Status BecomeUser(const config::Server& server);

// No core file and no look by others of the same user into this process' memory, which holds keys.
void KeepMemoryPrivate();

}  // namespace gateway
