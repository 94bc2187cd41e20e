#include "gateway/process/claim_devices.h"

#include <fmt/format.h>

#include "plugins/devices/machine.h"
#include "plugins/launchers/run_user.h"

namespace gateway {

absl::StatusOr<plugins::devices::DeviceClaims> ClaimDevices(const config::Scaling& scaling,
                                                            const std::vector<std::string>& run_users) {
  const bool declared = scaling.launcher == config::LauncherKind::kProcess && !scaling.device_locks.empty();
  if (!scaling.probed && !declared) return plugins::devices::DeviceClaims();
  std::vector<std::string> devices;
  for (const plugins::devices::LocalNode& node :
       scaling.probed ? scaling.probed->nodes : plugins::devices::LocalNodesOf(scaling.nodes)) {
    for (const plugins::devices::Device& device : node.devices) {
      devices.push_back(device.uuid.empty() ? fmt::format("{}-{}", Name(device.vendor), device.visible)
                                            : device.uuid);
    }
  }
  std::vector<uid_t> ignored;
  for (const std::string& name : run_users) {
    if (const auto user = plugins::launchers::FindRunUser(name); user.ok()) ignored.push_back(user->uid);
  }
  return plugins::devices::DeviceClaims::Take(
      scaling.device_locks.empty() ? plugins::devices::DefaultClaimFolder() : scaling.device_locks, devices,
      ignored);
}

}  // namespace gateway
