// DeviceClaims: the devices of this machine that this process may assign. Two gateways that know nothing
// of each other would load two engines into the memory of one device.
//
// A claim is a lock on a file of this process' own user, in a folder that is the same for all gateways of the
// machine. It ends with the process, however that ends. The system's list of locks tells of the files of
// other users, which cannot be opened: so a gateway of any user is seen, and no user can hold a claim for
// another.
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

  // By names that every gateway of the machine finds (KeyOf). `ignored`: users whose claims do not count, for
  // they run what tenants bring. Blocks, for two seconds at most. FailedPrecondition names the device and who
  // has it.
  static absl::StatusOr<DeviceClaims> Take(const std::string& folder, const std::vector<std::string>& devices,
                                           std::span<const uid_t> ignored);

 private:
  std::vector<gateway::net::Fd> locks_;
};

// Where claims are kept unless the configuration says otherwise: a folder in which every user may make files.
std::string DefaultClaimFolder();

}  // namespace plugins::devices
