// A list of nodes as CSV: one row a node, added to a cluster whose types and fabric are known.
//
// Two forms, distinguished by the header:
//   name,type[,domain][,health][,power_budget_watts][,label.KEY …]   types and domains by their names
//   sn,cpu_milli,memory_mib,gpu,model                                openb's form; makes types of its own
// A wrong row is left out and reported; a wrong header refuses the whole list.
#pragma once

#include <string>
#include <string_view>

#include "scheduler/io/loaded.h"
#include "scheduler/model.h"

namespace scheduler::io {

// A cluster without a fabric gets one domain for all nodes. openb's nodes are directly below the fabric's root.
LineReport ReadNodes(std::string_view text, const std::string& file, Cluster& cluster);

}  // namespace scheduler::io
