// Random draws of the simulator, from a portable source and without std::*_distribution, so that a seed gives
// the same world with every library.
#pragma once

#include <cmath>
#include <numbers>

#include "conf/time.h"
#include "scheduler/rng.h"

namespace scheduler::sim {

// Exponential with the given mean.
inline conf::Duration Exponential(Rng& rng, conf::Duration mean) {
  const double factor = -std::log1p(-rng.Double());
  return conf::Duration(static_cast<int64_t>(static_cast<double>(mean.count()) * factor));
}

// Standard normal (Box and Muller).
inline double Normal(Rng& rng) {
  const double radius = std::sqrt(-2 * std::log1p(-rng.Double()));
  return radius * std::cos(2 * std::numbers::pi * rng.Double());
}

}  // namespace scheduler::sim
