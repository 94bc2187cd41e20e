// Random draws of the simulator, from a portable source and without std::*_distribution, so that a seed gives
// the same world with every library.
#pragma once

#include <algorithm>
#include <chrono>
#include <cmath>
#include <numbers>

#include "conf/time.h"
#include "scheduler/rng.h"

namespace scheduler::sim {

// Exponential with the given mean, at most half a century, so that times stay on the clock.
inline conf::Duration Exponential(Rng& rng, conf::Duration mean) {
  const double factor = -std::log1p(-rng.Double());
  const double most = static_cast<double>(std::chrono::nanoseconds(std::chrono::hours(50 * 8760)).count());
  return conf::Duration(static_cast<int64_t>(std::min(static_cast<double>(mean.count()) * factor, most)));
}

// Standard normal (Box and Muller).
inline double Normal(Rng& rng) {
  const double radius = std::sqrt(-2 * std::log1p(-rng.Double()));
  return radius * std::cos(2 * std::numbers::pi * rng.Double());
}

}  // namespace scheduler::sim
