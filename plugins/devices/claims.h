// DeviceClaims: the devices of this machine that this process may assign. Without claims, two gateways could load two
// engines into the memory of one device.
//
// A claim is a lock on a file of this process' own user, in a folder that is the same for all gateways of the machine.
// It ends with the process, in whatever way the process ends. The system's list of locks shows the files of other
// users, which cannot be opened: so a gateway of any user is seen, and no user can hold a claim for another.
#pragma once

#include <absl/status/statusor.h>
#include <sys/types.h>

#include <span>
#include <string>
#include <vector>

#include "gateway/net/fd.h"

namespace plugins::devices {

class DeviceClaims {
 public:
  // None.
  DeviceClaims() = default;

  // Claims devices by names that every gateway of the machine finds (KeyOf). `ignored`: users whose claims do not count,
  // since they run programs of tenants. Blocks, for two seconds at most. FailedPrecondition names the device and its
  // holder.
  static absl::StatusOr<DeviceClaims> Take(const std::string& folder, const std::vector<std::string>& devices,
                                           std::span<const uid_t> ignored);

 private:
  std::vector<gateway::net::Fd> locks_;
};

// Where claims are kept unless the configuration says otherwise: a folder in which every user may make files.
std::string DefaultClaimFolder();

}  // namespace plugins::devices
