// The devices of this machine that a gateway with that configuration assigns, claimed for this process.
#pragma once

#include <absl/status/statusor.h>

#include <string>
#include <vector>

#include "gateway/config/scaling.h"
#include "plugins/devices/claims.h"

namespace gateway {

// Those that the vendors' tools have found. Declared ones may be anything, so they are claimed where the
// configuration says it. `run_users`: the users of runs, whose claims do not count. Blocks, and fails, as
// DeviceClaims::Take does.
absl::StatusOr<plugins::devices::DeviceClaims> ClaimDevices(const config::Scaling& scaling,
                                                            const std::vector<std::string>& run_users);

}  // namespace gateway
