// The pod lists of Alibaba's gpu-v2023 ("openb"):
// `name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,
// scheduled_time`, times in seconds; some lists end after gpu_milli. The cluster's own nodes are read as a
// node list (scheduler/io/nodes_csv.h).
#pragma once

#include <string>
#include <string_view>

#include "scheduler/sim/traces/trace.h"

namespace scheduler::sim {

// Each pod is a job of one member, in a queue named by its quality of service ("default" without one). A pod
// of a list without times is submitted at 0 and runs until the end. A pod whose deletion is before its
// creation is out of order. Jobs are given in order of creation.
Trace ReadOpenb(std::string_view text, const std::string& file);

}  // namespace scheduler::sim
