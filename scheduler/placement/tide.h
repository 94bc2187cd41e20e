// Tide, the default: place where the expected waste of devices grows least.
//
//   score = V(node) − V(node after) − 0.2 · price[kind] · devices asked
//           − 0.02 · CPU left after − 0.01 · devices left after   (as shares of the largest node's)
//           − 1 if several whole devices are asked for and the free ones are not of one link domain
//
// V and price are waste_table.h's. The terms of the remaining amounts order nearly equal nodes: by CPU for mixed work,
// by devices where no request asks for CPU. A share goes to the device with the best score; whole devices and
// partitions as in devices.h. The tables follow the demand mix (mix_learner.h); otherwise the score depends
// only on node and shape.
#pragma once

#include "scheduler/placement/placement_policy.h"

namespace scheduler {

double TideScore(const ScoreInput& input);
DeviceChoice TideDevices(const ScoreInput& input);

}  // namespace scheduler
