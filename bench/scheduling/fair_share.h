// The effect of fair shares: four queues on one simulated cluster. Three of them always want more than they deserve,
// one of these the whole cluster; the fourth comes in bursts and otherwise lends everything.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "conf/time.h"

namespace bench::scheduling {

struct FairShareOptions {
  uint64_t seed = 1;
  uint32_t nodes = 64;  // of eight devices; a multiple of 16
  uint32_t days = 1;
  conf::Duration half_life = std::chrono::hours(4);  // of usage
  uint32_t largest = 16;                             // devices of a job
  bool reclaim = true;
};

struct QueueOutcome {
  std::string name;
  double deserved = 0;        // devices
  double mean = 0;            // devices held, over the time
  double ratio = 0;           // mean over deserved
  double satisfaction = 0;    // held part of its entitlement at each moment
  bool always_wanted = true;  // at least its deserved share
  uint32_t demands = 0;       // times at which it began to want its deserved share
};

struct FairShareOutcome {
  std::vector<QueueOutcome> queues;
  double jain_of_ratios = 0;  // of `ratio`, over the queues that always wanted
  double jain = 0;            // of `satisfaction`, over all
  uint32_t demands = 0;
  uint32_t unmet = 0;        // of these, never satisfied
  conf::Duration longest{};  // from a demand to nine tenths of the deserved share
  uint32_t most_cycles = 0;  // cycles in which victims were chosen for one demand
  bool first_cycle = true;   // they were chosen in the demand's first cycle
  uint32_t reclaims = 0;     // victims
  // One queue takes back from another what that took, while both want all along and none of its own jobs
  // ended in between.
  uint32_t reversals = 0;
  uint32_t most_of_one_job = 0;  // times that one job was a victim
};

FairShareOutcome MeasureFairShare(const FairShareOptions& options);

}  // namespace bench::scheduling
