// Ways to cut devices that are known by name: NVIDIA's MIG profiles and where each may start, after the
// tables of NVIDIA's MIG user guide, and Ascend's vNPU templates. A cluster file names one, or describes its
// own.
#pragma once

#include <string_view>
#include <vector>

#include "scheduler/model.h"

namespace scheduler {

// In the order in which they are shown.
std::vector<std::string_view> KnownLayoutNames();

// Null for a name that is not among them.
const PartitionLayout* FindKnownLayout(std::string_view name);

}  // namespace scheduler
