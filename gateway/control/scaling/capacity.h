// The capacity of one replica of a model: estimated from the measured steps of its engines, or, before there
// are measurements, from the preset that the policy names or a first guess.
//
// Pure. A step takes a base time plus a time for each sequence of its batch. The measured mean step and mean
// batch give the base; the other parameters stay those of the preset.
#pragma once

#include <span>
#include <string>

#include "conf/time.h"
#include "router/load/engine_signals.h"
#include "scheduler/autoscale/capacity.h"

namespace gateway::control {

struct CapacityEstimate {
  scheduler::autoscale::Capacity capacity;
  std::string by;  // "preset llama-3.1-8b-h100", "a first guess", "measurements"
};

// `preset` is empty if the policy names none.
CapacityEstimate EstimateCapacity(const std::string& preset,
                                  std::span<const router::EngineSignals* const> engines, conf::TimePoint now);

}  // namespace gateway::control
