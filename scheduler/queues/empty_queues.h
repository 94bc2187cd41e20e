// EmptyQueues: the queue tree while no job holds a device. A job that it refuses is always refused.
//
// The cluster must outlive it. One thread.
#pragma once

#include <string>
#include <vector>

#include "scheduler/model.h"
#include "scheduler/queue.h"
#include "scheduler/queues/queue_tree.h"
#include "scheduler/state/job_table.h"
#include "scheduler/state/shape_table.h"

namespace scheduler {

class EmptyQueues {
 public:
  // The queues have no defect (queue_defects.h).
  EmptyQueues(const Cluster& cluster, const std::vector<Queue>& queues);
  EmptyQueues(const EmptyQueues&) = delete;
  EmptyQueues& operator=(const EmptyQueues&) = delete;

  // The quota that the job alone exceeds, with all its members (an elastic job with its fewest): "the queue team may
  // have at most 4 h100, and this job takes 5". Empty: none, or no such queue.
  std::string WhyRefused(const Job& job);

 private:
  std::string InWords(const QuotaVerdict& verdict) const;

  const Cluster& cluster_;
  ShapeTable shapes_;
  JobTable table_;
  QueueTree tree_;
};

}  // namespace scheduler
