// EmptyCluster: whether a cluster could hold a job if nothing else ran and all its nodes were healthy. A job that it
// could not hold would wait for ever.
//
// Equal asks are judged once. One thread.
#pragma once

#include <vector>

#include "scheduler/model.h"
#include "scheduler/placement/gang.h"
#include "scheduler/placement/placer.h"
#include "scheduler/state/cluster_state.h"
#include "scheduler/state/job_table.h"
#include "scheduler/state/resource_counts.h"
#include "scheduler/state/shape_table.h"
#include "scheduler/work.h"

namespace scheduler {

class EmptyCluster {
 public:
  explicit EmptyCluster(Cluster cluster);
  EmptyCluster(const EmptyCluster&) = delete;
  EmptyCluster& operator=(const EmptyCluster&) = delete;

  // With all its members; an elastic job with its fewest.
  bool Holds(const Job& job);

 private:
  static constexpr char kUnknown = 0;
  static constexpr char kNo = 1;
  static constexpr char kYes = 2;

  const Cluster cluster_;
  ClusterState state_;
  ShapeTable shapes_;
  JobTable table_;
  ResourceCounts resources_;
  Placer placer_;
  GangPlacer gangs_;
  std::vector<char> known_;  // by signature
};

}  // namespace scheduler
