// Which devices of a node a member gets: named free functions. Only asked where the shape fits.
#pragma once

#include "scheduler/placement/placement_policy.h"

namespace scheduler {

// Whole devices: the nearest to each other (device_table.h). A share: the device with the least left that
// still holds it. A partition: the place that keeps the most others possible (partition_choice.h).
DeviceChoice TightestDevices(const ScoreInput& input);

// A share: any device that holds it, by lot; else as above.
DeviceChoice RandomDevices(const ScoreInput& input);

// Whether the shape, a share, can go to the device.
bool TakesShare(const ScoreInput& input, size_t device);

// Whether the whole devices that the member would get are in one link domain; true where it asks for none.
bool GetsLinkedDevices(const ScoreInput& input);

}  // namespace scheduler
