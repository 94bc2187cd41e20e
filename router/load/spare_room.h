// Whether a replica can take a spare request, one that nobody waits for, so that others notice little. Three
// things of it are noticed: its prompt is computed before those that come next, each answer makes every step
// longer, and its place and its part of the KV cache are gone until it ends. So it goes only where no prompt is
// being computed, and where places and KV cache are left.
//
// Unlike headroom this trusts guesses: a spare request that waits in vain costs nobody. An idle replica has room,
// whatever the measurements say. Pure.
#pragma once

#include "router/load/engine_signals.h"
#include "router/routes/headroom_limits.h"

namespace router {

bool HasSpareRoom(const ReplicaSignals& signals, const ObservedSignals& seen, const HeadroomLimits& limits);

}  // namespace router
