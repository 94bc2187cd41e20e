// Knative's pod autoscaler, by its published rule: replicas for the mean of requests in flight over a stable window. If
// the mean over a short window asks for twice the ready replicas, a panic begins: the short window decides, and the
// number never falls until the short window has been quiet for a stable window. (knative/serving,
// pkg/autoscaler/scaling)
#pragma once

#include <cstdint>
#include <optional>

#include "scheduler/autoscale/policy.h"
#include "scheduler/autoscale/window.h"

namespace scheduler::autoscale {

class Kpa {
 public:
  explicit Kpa(const KpaSettings& settings) : settings_(settings), in_flight_(settings.stable_window) {}

  // Once a tick, with the requests that are in flight, held ones included.
  uint32_t Decide(double in_flight, uint32_t ready, conf::TimePoint now);
  // The rule itself, from the two means.
  uint32_t Decide(double stable, double panic, uint32_t ready, conf::TimePoint now);

  bool panics() const { return panic_since_.has_value(); }

 private:
  KpaSettings settings_;
  Window in_flight_;
  std::optional<conf::TimePoint> panic_since_;  // or when it last was above the threshold
  double panic_replicas_ = 0;                   // the most of this panic
};

}  // namespace scheduler::autoscale
