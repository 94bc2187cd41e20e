// Recorded traffic as requests of the simulation, at any rate, and the load that it is for a pool.
//
// The load is the replica-seconds that the requests need, divided by those that the pool has, if it found all
// that one cache as large as all of its own would hold and always decoded full batches. No routing reaches
// that, so every policy is past its best at 97 %.
#pragma once

#include <span>
#include <vector>

#include "router/sim/traffic.h"
#include "router/sim/world.h"
#include "scheduler/engine/model.h"

namespace router::sim {

// Splits each block into chained blocks of kBlockTokens. Calls without blocks share nothing; calls without
// input or output tokens are left out.
std::vector<Request> RequestsOf(std::span<const Call> calls);

// The same requests at `factor` times the rate.
std::vector<Request> Faster(std::vector<Request> requests, double factor);

// Seconds that one replica with `profile` needs for the requests, if a share `hits` of their prompt tokens is
// cached.
double DemandSeconds(std::span<const Request> requests, const scheduler::engine::Profile& profile,
                     double hits);

// The speed-up at which the requests load `replicas` replicas by `load`. Replicas of half the speed count
// half, so eight of which every second one is slow count as six.
double SpeedUpFor(double load, double replicas, std::span<const Request> requests,
                  const scheduler::engine::Profile& profile, double hits);

}  // namespace router::sim
