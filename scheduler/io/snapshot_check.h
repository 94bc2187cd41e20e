// Checks that a snapshot from outside is possible; the planner relies on that.
#pragma once

#include <string>

#include "scheduler/snapshot.h"

namespace scheduler::io {

// The first impossible thing, by name; empty: there is none. Jobs with equal ids, ids of nodes or
// profiles that do not exist, members beyond their role, a device, CPU or memory held twice.
std::string FirstDefect(const Snapshot& snapshot);

}  // namespace scheduler::io
