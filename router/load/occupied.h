// How much of a replica its requests use, for the autoscaler: lines of batches do not count. Pure but for the signals
// that it reads.
#pragma once

#include "conf/time.h"
#include "router/load/engine_signals.h"
#include "router/routes/headroom_limits.h"
#include "scheduler/autoscale/capacity.h"

namespace router {

// The part of a ready replica's batch or KV cache that is in use, 0 to 1. A replica that was observed to be
// full (headroom.h) counts as full, whatever `capacity`, an estimate, says.
double OccupiedOf(const EngineSignals& engine, const scheduler::autoscale::Capacity& capacity,
                  const HeadroomLimits& room, conf::Duration inter_token, conf::TimePoint now);

}  // namespace router
