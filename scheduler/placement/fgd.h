// FGD as published (Weng et al., "Beware of Fragmentation", ATC'23): place where fragmentation grows least.
//
//   score = trunc(100 · sigmoid((F(node) − F(node after)) / 1000)), a whole number
//
// F is fragmentation_table.h's. A share goes to the device with the highest score; among equals to the first.
// The rounding makes many ties, and the order in which ties are broken influences how well it packs.
#pragma once

#include "scheduler/placement/placement_policy.h"

namespace scheduler {

double FgdScore(const ScoreInput& input);
DeviceChoice FgdDevices(const ScoreInput& input);

}  // namespace scheduler
