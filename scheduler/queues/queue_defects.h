// Checks the configuration of queues.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "scheduler/model.h"
#include "scheduler/queue.h"

namespace scheduler {

// The amount that a quota has of a kind, in milli: by the kind's name, else by "*". The amount of "*" is the sum of all
// kinds where the quota does not name it.
int64_t QuotaFor(const DeviceQuota& quota, const std::string& kind);

// The first defect of queues that a program has built: a name that is missing or given twice, a parent that does not
// exist, a cycle, a negative number, a kind that the cluster does not have, more deserved or lent than the parent has.
// Empty: none.
std::string FirstDefect(const std::vector<Queue>& queues, const Cluster& cluster);

}  // namespace scheduler
