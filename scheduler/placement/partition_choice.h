// The place on a device for a partition (MIG, vNPU): the one that leaves the most other partitions possible.
#pragma once

#include "scheduler/placement/placement_policy.h"

namespace scheduler {

// Devices that have partitions already go before whole ones. Among their places it chooses the one that
// reduces this sum least:
//
//   Σ_profiles share of the demand · how many partitions of the profile still fit
//
// The shares are those of partitions in the demand mix, or equal if the mix has none. A place that costs
// another partition of the same profile is never taken where a better one exists. Call it only if the shape
// fits.
DeviceChoice KindestPartition(const ScoreInput& input);

}  // namespace scheduler
