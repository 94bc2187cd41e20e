// Kubernetes' horizontal pod autoscaler, by its published rule for a metric with an average value: what is in
// flight over the target, rounded up; nothing while that is within the tolerance of what there is. Looks once
// a sync period. What limits the change is in behavior.h.
#pragma once

#include <cstdint>
#include <optional>

#include "scheduler/autoscale/policy.h"

namespace scheduler::autoscale {

class Hpa {
 public:
  explicit Hpa(const HpaSettings& settings) : settings_(settings) {}

  // At a tick; between two syncs the last answer.
  uint32_t Decide(double in_flight, uint32_t replicas, conf::TimePoint now);

 private:
  HpaSettings settings_;
  std::optional<conf::TimePoint> last_;
  uint32_t wanted_ = 0;
};

}  // namespace scheduler::autoscale
