// The records of workloads in the store: what the next process, after a kill at any point, must know about
// running workloads and held devices.
//
// Two kinds of objects: workloads (store::kWorkload) by their ids, and submissions (store::kSubmission),
// which the elements of an array share. The submission "last" has the last number that was given.
//
// Pure. A body of another form is DataLoss, and the message names the object.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "gateway/control/workloads/workload.h"
#include "gateway/store/store.h"
#include "scheduler/model.h"

namespace gateway::control {

inline constexpr char kLastSubmission[] = "last";

std::string BodyOf(const Workload& workload, const scheduler::Cluster& cluster);
std::string BodyOf(const Submission& submission);
std::string BodyOfLast(uint64_t number);

struct KnownWorkloads {
  uint64_t last_number = 0;         // of a submission
  std::vector<Workload> workloads;  // jobs in the order of submission, then replicas by age
};

// A member on a node, or with a kind of devices, that is no longer in the cluster gets the node kNone.
absl::StatusOr<KnownWorkloads> ReadWorkloads(const std::vector<store::Object>& workloads,
                                             const std::vector<store::Object>& submissions,
                                             const scheduler::Cluster& cluster);

}  // namespace gateway::control
