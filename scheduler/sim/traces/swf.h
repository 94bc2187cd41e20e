// The Standard Workload Format of the Parallel Workloads Archive: 18 whole numbers a line, -1 for unknown values,
// comments and header fields behind ";".
//
// The reader takes the job number, submit time, run time, processors (requested, else allocated), requested time, user,
// queue and preceding job. One processor is one device. Lines must be in the order of submission; a line that is not,
// or that has no run time or processors, is left out.
#pragma once

#include <string>
#include <string_view>

#include "scheduler/sim/traces/trace.h"

namespace scheduler::sim {

// Submit times count from the header's UnixStartTime. The requested time is the user's estimate. A preceding
// job that was left out is not waited for.
Trace ReadSwf(std::string_view text, const std::string& file, uint32_t devices_per_node);

}  // namespace scheduler::sim
