// The world of the simulated sections: a cluster of eight-way nodes, and jobs that ask for devices only.
#pragma once

#include <string>

#include "scheduler/model.h"
#include "scheduler/rng.h"
#include "scheduler/sim/traces/trace.h"

namespace bench::scheduling {

// Nodes in leaf groups, with spines between these and the root if there are more than 0 leaves in each.
scheduler::Cluster EightWayCluster(uint32_t nodes, int nodes_per_leaf = 8, int leaves_per_spine = 0);

// Members that fill a node each, and a last one with the remainder; its estimate is right.
scheduler::sim::TraceJob JobOn(std::string queue, uint32_t number, uint32_t devices, conf::Duration submitted,
                               conf::Duration run);

// Uniform between the two, in whole seconds.
conf::Duration Between(scheduler::Rng& rng, conf::Duration least, conf::Duration most);

}  // namespace bench::scheduling
