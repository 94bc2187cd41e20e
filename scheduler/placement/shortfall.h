// The resource that a cluster lacks for a job that it cannot hold, in words. Pure.
#pragma once

#include <string>

#include "scheduler/model.h"
#include "scheduler/work.h"

namespace scheduler {

// Which nodes count.
enum class Among : uint8_t { kAllNodes, kHealthyNodes };

// The first need of the job that the cluster does not meet even when nothing runs: what it asks for, and what the
// largest node or the whole cluster has ("a member asks for 16 devices of h100 on one node, the largest node has 8").
// For a job whose needs are met one by one but not together it says so. Counts the fewest members that the job can
// run with.
std::string ShortfallOf(const Job& job, const Cluster& cluster, Among among);

}  // namespace scheduler
