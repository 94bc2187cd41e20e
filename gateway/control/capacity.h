// What one replica of a model can do: by what its engines were seen to do, and as long as that is not known,
// by the preset that the policy names or a first guess.
//
// Pure. A batch's step takes a base and something for each sequence; the mean step and the mean batch that
// were seen give the base, the rest stays the preset's.
#pragma once

#include <span>
#include <string>

#include "conf/time.h"
#include "router/load/engine_signals.h"
#include "router/routes/headroom_limits.h"
#include "scheduler/autoscale/capacity.h"

namespace gateway::control {

struct Reckoned {
  scheduler::autoscale::Capacity capacity;
  std::string by;  // "preset llama-3.1-8b-h100", "a first guess", "what was measured"
};

// `preset` empty: none is named.
Reckoned ReckonCapacity(const std::string& preset, std::span<const router::EngineSignals* const> engines,
                        conf::TimePoint now);

// Of a ready replica, the part of its batch or KV cache that is in use: 0 to 1. One that was seen to be full
// (router/admission/headroom.h) is, whatever has been reckoned.
double OccupiedOf(const router::EngineSignals& engine, const scheduler::autoscale::Capacity& capacity,
                  const router::HeadroomLimits& room, conf::Duration inter_token, conf::TimePoint now);

}  // namespace gateway::control
