// Power limits of NVIDIA's devices of this machine, through NVML, as `nvidia-smi -pl` sets them. Calls block, maybe for
// good where a driver hangs.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <string>

namespace plugins::devices {

struct PowerLimit {
  double now = 0;    // watts
  double least = 0;  // the lowest limit that the driver allows
};

// `uuid`: as readings have it (Reading::key). NotFound: there is no such device; Unavailable: there is no driver, or it fails; Unimplemented: the
// device's limit cannot be set or read; PermissionDenied: not by this user.
absl::StatusOr<PowerLimit> ReadPowerLimit(const std::string& uuid,
                                          const std::string& library = "libnvidia-ml.so.1");
absl::Status SetPowerLimit(const std::string& uuid, double watts,
                           const std::string& library = "libnvidia-ml.so.1");

}  // namespace plugins::devices
