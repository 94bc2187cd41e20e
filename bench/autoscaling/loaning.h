// What the devices that a model's replicas do not need just now are worth to training: the production planner
// over a pool that is as large as the model's peak, with the replicas that an autoscaled pool had
// (router/sim/elastic.h) and a backlog of training that may be preempted.
#pragma once

#include <cstdint>
#include <span>

#include "router/sim/elastic_series.h"

namespace bench::autoscaling {

struct Loaning {
  uint32_t devices = 0;
  double hours = 0;
  double serving_h = 0;   // device-hours that replicas held
  double lent_h = 0;      // held by training, of the devices that replicas did not use
  double idle_h = 0;      // idle
  double wasted_h = 0;    // of what was lent: saving, restoring and what a stop threw away
  uint32_t reclaims = 0;  // replicas that had to wait for training to leave
  double reclaim_p50_s = 0;
  double reclaim_p95_s = 0;
  double reclaim_most_s = 0;
  double grace_s = 0;  // that a training job has

  double harvested() const { return lent_h / (lent_h + idle_h); }
};

// Samples in steps of a second; a replica takes this many devices.
Loaning MeasureLoaning(std::span<const router::sim::ElasticSample> samples, uint32_t devices_each);

}  // namespace bench::autoscaling
