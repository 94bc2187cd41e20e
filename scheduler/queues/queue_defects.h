// Checks the configuration of queues.
#pragma once

#include <string>
#include <vector>

#include "scheduler/model.h"
#include "scheduler/queue.h"

namespace scheduler {

// The defects of queues that a program put together: a name twice or missing, a parent that does not
// exist, a cycle, a negative number, a kind that the cluster does not have, more deserved or lent than there
// is above. Empty: nothing.
std::string FirstDefect(const std::vector<Queue>& queues, const Cluster& cluster);

}  // namespace scheduler
