#include "scheduler/autoscale/kpa.h"

#include <algorithm>
#include <cmath>

namespace scheduler::autoscale {

uint32_t Kpa::Decide(double in_flight, uint32_t ready, conf::TimePoint now) {
  in_flight_.Add(in_flight, now);
  return Decide(in_flight_.Mean(settings_.stable_window, now), in_flight_.Mean(settings_.panic_window, now),
                ready, now);
}

uint32_t Kpa::Decide(double stable, double panic, uint32_t ready, conf::TimePoint now) {
  const double there = std::max(1.0, static_cast<double>(ready));
  const double most = std::ceil(settings_.max_scale_up * there);
  const double least = std::floor(there / settings_.max_scale_down);
  const double for_stable = std::clamp(std::ceil(stable / settings_.target), least, most);
  const double unbounded = std::ceil(panic / settings_.target);
  const double for_panic = std::clamp(unbounded, least, most);
  if (unbounded / there >= settings_.panic_threshold) {
    panic_since_ = now;
  } else if (panic_since_ && *panic_since_ + settings_.stable_window < now) {
    panic_since_.reset();
    panic_replicas_ = 0;
  }
  double wanted = for_stable;
  if (panic_since_) {
    panic_replicas_ = std::max({panic_replicas_, for_stable, for_panic});
    wanted = panic_replicas_;
  }
  return static_cast<uint32_t>(std::min(wanted, 1e9));
}

}  // namespace scheduler::autoscale
