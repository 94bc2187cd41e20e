// The limits by which NVIDIA's MPS keeps a process to its share of a device: of the compute units, and of the memory.
//
// MPS must run before: CUDA ignores the limits where no control daemon (`nvidia-cuda-mps-control -d`) answers.
#pragma once

#include <absl/status/statusor.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "plugins/launchers/launcher.h"

namespace plugins::launchers {

// The variables of a run with this grant; none for whole devices. Looks for the daemon's pipe on the disk.
// FailedPrecondition: it is not there.
absl::StatusOr<std::vector<std::pair<std::string, std::string>>> MpsLimits(const DeviceGrant& grant);

// Whether it sets the variable, so that a run's own environment may not.
bool IsMpsVariable(std::string_view name);

}  // namespace plugins::launchers
