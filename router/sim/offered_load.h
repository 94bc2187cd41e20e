// Recorded traffic as the simulation's requests, at any rate, and the load that it is for a pool.
//
// A load is a share of what the pool could do if it found what one cache as large as all of its own would
// hold, and always decoded full batches: replica-seconds asked for over replica-seconds there. No routing
// gets there, so that every policy is past its best at 97 %.
#pragma once

#include <span>
#include <vector>

#include "router/sim/traffic.h"
#include "router/sim/world.h"
#include "scheduler/engine/model.h"

namespace router::sim {

// Each block becomes blocks of kBlockTokens, chained. Calls without blocks share nothing; those without a
// token to read or to write are left out.
std::vector<Request> RequestsOf(std::span<const Call> calls);

// The same requests, `factor` times as fast.
std::vector<Request> Faster(std::vector<Request> requests, double factor);

// Replica-seconds of one replica with `profile` that the requests ask for, a share `hits` of the prompts'
// tokens being cached.
double DemandSeconds(std::span<const Request> requests, const scheduler::engine::Profile& profile,
                     double hits);

// How much faster the requests must come to load as many replicas as `replicas` (0.75 of eight when every
// second runs at half the rate) by so much.
double SpeedUpFor(double load, double replicas, std::span<const Request> requests,
                  const scheduler::engine::Profile& profile, double hits);

}  // namespace router::sim
