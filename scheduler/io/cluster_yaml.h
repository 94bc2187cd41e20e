// A cluster file: device kinds, node types defined once, nodes by name or pattern, and the fabric that joins
// them. conf/clusters/ has examples with every key.
#pragma once

#include <string>
#include <string_view>

#include "scheduler/io/loaded.h"
#include "scheduler/model.h"

namespace scheduler::io {

// A file may leave `nodes` out and get them from a list (nodes_csv.h); `fabric` then says how they are
// grouped.
Loaded<Cluster> ReadCluster(std::string_view text, const std::string& file);

}  // namespace scheduler::io
