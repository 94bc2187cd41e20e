// Changes to a system that a what-if tries: more nodes, another quota. Pure; for the command line and for the
// admin API.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "scheduler/model.h"
#include "scheduler/queue.h"

namespace scheduler::io {

// Adds `count` nodes like that one, in leaf groups of their own that are as large as its. Names: added-node-0, …
void AddNodes(Cluster& cluster, NodeId like, uint32_t count);

// "QUEUE=DEVICES" or "QUEUE=KIND:DEVICES": what the queue deserves, of all kinds together or of one. Returns
// what is wrong with the text; empty: nothing.
std::string SetQuota(std::string_view text, std::vector<Queue>& queues);

}  // namespace scheduler::io
