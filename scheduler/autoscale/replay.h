// Replays observed traffic under a policy: its law, a queue and cold starts in virtual time.
//
// A fluid model. Work arrives as it was observed; each ready replica does one second of work a second. The rest of the
// work waits, first come, first served, and is refused after the policy's `hold`. A start takes `cold_start` and always
// finds a place; a replica that is not wanted is gone at once. Requests in flight and occupied places follow the work
// that is done, in the observed proportions.
//
// Pure.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "scheduler/autoscale/policy.h"

namespace scheduler::autoscale {

// Means over one step of some seconds, which ends at `at`.
struct Observed {
  conf::TimePoint at{};
  double seconds = 0;
  double work = 0;      // seconds of a replica that arrived in each second
  double arrivals = 0;  // requests, likewise
  double in_flight = 0;
  double held = 0;      // of these, until a replica can take them
  double occupied = 0;  // as in DemandSignals
  double ready = 0;     // replicas
  double there = 0;     // these and those on their way
  double demand = 0;    // by the law
};

struct ReplayedStep {
  conf::TimePoint at{};
  double demand = 0;
  uint32_t ready = 0;
  uint32_t there = 0;
  double waiting = 0;  // seconds of a replica
};

struct Replayed {
  std::vector<ReplayedStep> steps;  // one for each that was observed
  double replica_seconds = 0;       // from start to stop
  uint32_t starts = 0;
  uint32_t stops = 0;
  uint32_t most = 0;              // ready at once
  double work = 0;                // that arrived, seconds of a replica
  double late = 0;                // of this, done after it had waited longer than slo.ttft
  double refused = 0;             // of this, refused
  conf::Duration longest_wait{};  // of work that was done or refused
};

// Begins with the replicas that were ready in the first step.
Replayed Replay(const ScalingPolicy& policy, std::span<const Observed> observed, conf::Duration cold_start);

}  // namespace scheduler::autoscale
