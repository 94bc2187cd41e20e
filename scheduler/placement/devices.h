// Which devices of a node a member gets: named free functions. Called only where the shape fits.
#pragma once

#include "scheduler/placement/placement_policy.h"

namespace scheduler {

// Whole devices: the ones nearest to each other (device_table.h). A share: the fullest device that still has room. A
// partition: the place that leaves the most other partitions possible (partition_choice.h).
DeviceChoice TightestDevices(const ScoreInput& input);

// A share: a random device with room; otherwise as above.
DeviceChoice RandomDevices(const ScoreInput& input);

// Whether the shape, a share, fits on the device.
bool TakesShare(const ScoreInput& input, size_t device);

// Whether the whole devices that the member would get are in one link domain; true where it asks for none.
bool GetsLinkedDevices(const ScoreInput& input);

}  // namespace scheduler
