// The records of workloads in the store: what a process that comes after this one, killed at any point, must
// know of what runs and of which devices are taken.
//
// Two kinds of objects: a workload (store::kWorkload) by its id, and a submission (store::kSubmission), which
// the elements of an array share, by its own. The submission "last" has the last number that was given.
//
// Pure. A body that is not what this writes is DataLoss, and the message names the object.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "gateway/control/workload.h"
#include "gateway/store/store.h"
#include "scheduler/model.h"

namespace gateway::control {

inline constexpr char kLastSubmission[] = "last";

std::string BodyOf(const Workload& workload, const scheduler::Cluster& cluster);
std::string BodyOf(const Submission& submission);
std::string BodyOfLast(uint64_t number);

struct KnownWorkloads {
  uint64_t last_number = 0;         // of a submission
  std::vector<Workload> workloads;  // jobs in the order in which they were handed in, then replicas by age
};

// A member on a node, or with a kind of devices, that the cluster does not have (any more) stands on node
// kNone.
absl::StatusOr<KnownWorkloads> ReadWorkloads(const std::vector<store::Object>& workloads,
                                             const std::vector<store::Object>& submissions,
                                             const scheduler::Cluster& cluster);

}  // namespace gateway::control
