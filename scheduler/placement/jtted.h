// Kant's JTTED: how much longer communication between a gang's members takes than in the ideal placement.
//
// T_est is the mean cost over pairs of the job's devices, by the level at which the two meet: 1/9 within a
// node (450 GB/s of NVLink against 50 GB/s of network, each way), 1 within a leaf, and 1.27 times as much for
// each level above (an all-reduce within one leaf is 27 % faster than one across leaves):
//
//   T_est = Σ_pairs cost(level at which they meet) / pairs,   JTTED = T_est(placement) / T_est(ideal)
//
// The ideal is the placement of the same members on this cluster when it is empty and healthy. Only
// communication is estimated: computing takes the same time everywhere, so the run time of a job gains less
// than this ratio.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "scheduler/placement/gang.h"
#include "scheduler/placement/placer.h"
#include "scheduler/state/cluster_state.h"
#include "scheduler/state/job_table.h"

namespace scheduler {

struct Jtted {
  double ratio = 1;  // at least 1; of a job with fewer than two devices 1
  uint32_t nodes = 0;
  uint32_t ideal_nodes = 0;
  uint32_t leaves = 0;  // lowest fabric domains
  uint32_t ideal_leaves = 0;
};

// Keeps an empty copy of the cluster. One thread; must not outlive the state or the shapes.
class JttedEstimator {
 public:
  JttedEstimator(const ClusterState& state, const ShapeTable& shapes);

  // The estimate for the job's present members.
  Jtted Of(JobIndex job, const JobEntry& entry);

 private:
  struct Pairs {
    double mean_cost = 0;
    uint32_t nodes = 0;
    uint32_t leaves = 0;
  };
  struct NodeWeight {
    NodeId node = 0;
    uint64_t devices = 0;
  };
  Pairs CostOf(std::vector<NodeWeight>& weights);
  bool PlaceIdeally(JobIndex job, const JobEntry& entry);

  const ClusterState* state_;
  ClusterState empty_;
  Placer placer_;
  GangPlacer gangs_;
  std::vector<NodeWeight> here_;   // scratch
  std::vector<NodeWeight> ideal_;  // scratch
  std::vector<uint64_t> below_;    // scratch: devices below each domain
  std::vector<DomainId> touched_;  // scratch
};

}  // namespace scheduler
