// Kubernetes' horizontal pod autoscaler, by its published rule for a metric with an average value: requests
// in flight over the target, rounded up; no change while the result is within the tolerance of the present
// number. It decides once a sync period. behavior.h limits the change.
#pragma once

#include <cstdint>
#include <optional>

#include "scheduler/autoscale/policy.h"

namespace scheduler::autoscale {

class Hpa {
 public:
  explicit Hpa(const HpaSettings& settings) : settings_(settings) {}

  // Called at each tick; between two syncs it repeats the last answer.
  uint32_t Decide(double in_flight, uint32_t replicas, conf::TimePoint now);

 private:
  HpaSettings settings_;
  std::optional<conf::TimePoint> last_;
  uint32_t wanted_ = 0;
};

}  // namespace scheduler::autoscale
