#include "scheduler/autoscale/policy.h"

#include <algorithm>

namespace scheduler::autoscale {

Behavior HpaBehavior() {
  using std::chrono::seconds;
  return {
      .scale_up = {.policies = {{RateUnit::kPercent, 100, seconds(15)},
                                {RateUnit::kReplicas, 4, seconds(15)}}},
      .scale_down = {.stabilization = seconds(300), .policies = {{RateUnit::kPercent, 100, seconds(15)}}}};
}

uint32_t FloorAt(const std::vector<ScheduledFloor>& schedule, conf::TimePoint now) {
  std::optional<conf::TimePoint> last;
  uint32_t floor = 0;
  for (const ScheduledFloor& entry : schedule) {
    const std::optional<conf::TimePoint> fired = entry.cron.LastFiring(now, entry.zone);
    if (!fired || (last && *fired < *last)) continue;
    // Of two that fire together the higher floor holds.
    floor = last && *fired == *last ? std::max(floor, entry.min) : entry.min;
    last = fired;
  }
  return floor;
}

uint32_t LeastAt(const ScalingPolicy& policy, conf::TimePoint now) {
  return std::max(policy.min, FloorAt(policy.schedule, now));
}

}  // namespace scheduler::autoscale
