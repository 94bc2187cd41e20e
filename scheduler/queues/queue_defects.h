// Checks the configuration of queues.
#pragma once

#include <string>
#include <vector>

#include "scheduler/model.h"
#include "scheduler/queue.h"

namespace scheduler {

// The first defect of queues that a program has built: a name that is missing or given twice, a parent that does not
// exist, a cycle, a negative number, a kind that the cluster does not have, more deserved or lent than the parent has.
// Empty: none.
std::string FirstDefect(const std::vector<Queue>& queues, const Cluster& cluster);

}  // namespace scheduler
