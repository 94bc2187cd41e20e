// How much of a cluster a placement policy fills as work keeps arriving: the arrived-load protocol of the FGD
// paper's simulator (Weng et al., ATC'23), step by step as its authors ran it on openb.
//
// A list of single members is put in random order and brought to 130 % of the cluster's devices: a longer
// list loses random members, a shorter one gets members of the list drawn again at its end, until the next
// would exceed it by one of its devices. Members are offered one at a time; one that fits nowhere is refused
// for good; nothing ends, waits or moves. Load and allocation are shares of all devices; the reading at n
// percent is the mean allocation over the arrivals at which the load rounds (half to even) to n.
//
// Pure; the same input gives the same output.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "scheduler/model.h"
#include "scheduler/work.h"

namespace scheduler::sim {

// Where the demand mix comes from that policies weigh.
enum class MixFrom : uint8_t {
  kList,      // known beforehand, as published FGD has it
  kArrivals,  // learnt from the arrivals (mix_learner.h)
};

struct UntilAllocatedOptions {
  std::string placement = "default";  // a name of PlacementPolicies()
  MixFrom mix = MixFrom::kArrivals;
  uint64_t seed = 1;    // order of arrival, ties, lots
  uint64_t naming = 0;  // another order among equal nodes with the same arrivals, as if they were renamed
  double load = 1.3;    // of the cluster's devices, that arrives
  // Called from time to time with the share that is done; may be empty.
  std::function<void(double)> progress{};
};

struct UntilAllocated {
  std::vector<double> allocated{};  // percent of all devices, by whole percent of load, from 0
  uint32_t arrived = 0;             // members
  uint32_t refused = 0;

  // At this load, or at the last reading before it.
  double At(size_t percent) const { return allocated[std::min(percent, allocated.size() - 1)]; }
};

// Requires a cluster with devices, an ask with devices, and no partitions or alternatives: of an ask with
// several alternatives the first one counts as load.
// The order in which FillUntilAllocated has them arrive: indices of `asks`, drawn ones among them twice.
std::vector<uint32_t> ArrivalOrder(const Cluster& cluster, std::span<const Ask> asks,
                                   const UntilAllocatedOptions& options);

UntilAllocated FillUntilAllocated(const Cluster& cluster, std::span<const Ask> asks,
                                  const UntilAllocatedOptions& options);

}  // namespace scheduler::sim
