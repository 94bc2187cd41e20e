// Which place on which device a partition (MIG, vNPU) gets: the one that keeps the most other partitions
// possible.
#pragma once

#include "scheduler/placement/placement_policy.h"

namespace scheduler {

// Devices that are cut already go before whole ones. Of the places on them, the one that loses the least of
//
//   Σ_profiles share of the demand · how many partitions of the profile still fit
//
// with the shares that the demand mix has of partitions; of all profiles alike where it has none. Never a
// place that costs another of its own profile where one does not. Only asked where the shape fits.
DeviceChoice KindestPartition(const ScoreInput& input);

}  // namespace scheduler
