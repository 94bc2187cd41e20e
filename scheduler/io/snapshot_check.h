// Whether a snapshot that came from outside can have been: the planner relies on it.
#pragma once

#include <string>

#include "scheduler/snapshot.h"

namespace scheduler::io {

// The first thing that is impossible, by name; empty: nothing is. Jobs with equal ids, ids of nodes or
// profiles that do not exist, members beyond their role, a device, CPU or memory held twice.
std::string FirstDefect(const Snapshot& snapshot);

}  // namespace scheduler::io
