// Why a job can never start on a cluster, even if nothing else ran and all its nodes were healthy, and what
// could start instead.
//
// Pure. The time it takes is that of a few placements on an empty cluster.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "scheduler/model.h"
#include "scheduler/queue.h"
#include "scheduler/work.h"

namespace gateway::config {

struct NeverFits {
  std::string pointer;  // of the member of the job's file: /devices, /members, /queue, …
  std::string value;
  std::string message;
};

// Nothing: it could start, or the cluster has no nodes that are known. `job` has one role, whose ask names
// what it may really get (AskForUncut).
std::optional<NeverFits> FindNeverFits(const scheduler::Cluster& cluster,
                                       const std::vector<scheduler::Queue>& queues, scheduler::Job job);

}  // namespace gateway::config
