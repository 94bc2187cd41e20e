// The Philly trace as published with Sia: `timestamp,duration,num_gpus,gpu_time,cluster` with a header, times
// in UTC, durations in seconds. The file is not in order of time; the jobs that are given are.
#pragma once

#include <string>
#include <string_view>

#include "scheduler/sim/traces/trace.h"

namespace scheduler::sim {

// Each virtual cluster becomes a queue. Up to `devices_per_node` GPUs are one member; above, members that
// fill a node and the remainder in a last one.
Trace ReadPhilly(std::string_view text, const std::string& file, uint32_t devices_per_node);

}  // namespace scheduler::sim
