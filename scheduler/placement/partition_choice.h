// The place on a device for a partition (MIG, vNPU): the one that keeps the most other partitions possible.
#pragma once

#include "scheduler/placement/placement_policy.h"

namespace scheduler {

// Devices that have partitions already go before whole ones. Among their places, the one that loses the least
// of
//
//   Σ_profiles share of the demand · how many partitions of the profile still fit
//
// with the shares of partitions in the demand mix, or equal shares where it has none. Never a place that
// costs another partition of the same profile where a better one exists. Called only where the shape fits.
DeviceChoice KindestPartition(const ScoreInput& input);

}  // namespace scheduler
