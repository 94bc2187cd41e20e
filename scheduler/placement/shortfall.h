// The resource that a cluster lacks for a job that it cannot hold, in words. Pure.
#pragma once

#include <string>

#include "scheduler/model.h"
#include "scheduler/work.h"

namespace scheduler {

// Which nodes count.
enum class Among : uint8_t { kAllNodes, kHealthyNodes };

// The first need of the job that the cluster does not meet even when nothing runs, beside what the largest node or the
// whole cluster has ("a member asks for 16 devices of h100 on one node, the largest node has 8"). If each need is met
// alone but not all together, the text says so. Counts the fewest members with which the job can run.
std::string ShortfallOf(const Job& job, const Cluster& cluster, Among among);

}  // namespace scheduler
