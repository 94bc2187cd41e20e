#include "scheduler/autoscale/hpa.h"

#include <algorithm>
#include <cmath>

namespace scheduler::autoscale {

uint32_t Hpa::Decide(double in_flight, uint32_t replicas, conf::TimePoint now) {
  if (last_ && now - *last_ < settings_.sync) return wanted_;
  last_ = now;
  if (!std::isfinite(in_flight) || in_flight < 0) in_flight = 0;
  const double ratio = replicas == 0 ? 0 : in_flight / (settings_.target * replicas);
  const bool as_it_is = replicas > 0 && std::abs(ratio - 1) <= settings_.tolerance;
  wanted_ =
      as_it_is ? replicas : static_cast<uint32_t>(std::min(std::ceil(in_flight / settings_.target), 1e9));
  return wanted_;
}

}  // namespace scheduler::autoscale
