// The demand law, our own: replicas for the load, with the hold and the margin that were right for the traffic so far.
//
//   demand = (1 + margin) * greatest load of the last hold     (load.h; margin and hold: hindsight.h)
//            * (1 + headroom for first tokens that came late)   (headroom.h)
//            + backlog that has waited too long, over a cold start
//
// in replicas. The law scales up when demand is above up_at of the replicas that are ready or coming. It scales down
// when, throughout the policy's hold, demand is below down_at of them and would still be below up_at of one replica
// less.
//
// Margin and hold are the ones that would have had the lowest price, of replicas and of lateness, for this model's
// traffic so far. So the free capacity grows with the cold start, with bursts and with growth. The higher the
// attainment, the more lateness costs. The policy's hold is the shortest hold; its margin is a factor of the margin.
//
// A backlog counts once its oldest request has waited for half of slo.ttft: that is an early sign that the measured
// rate is too low.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "scheduler/autoscale/headroom.h"
#include "scheduler/autoscale/hindsight.h"
#include "scheduler/autoscale/load.h"
#include "scheduler/autoscale/policy.h"
#include "scheduler/autoscale/window.h"

namespace scheduler::autoscale {

struct DemandSignals {
  double work = 0;          // seconds of a replica that arrived in this tick, for each second of it
  double backlog = 0;       // seconds of a replica that wait at the gateway
  conf::Duration oldest{};  // wait of the oldest request
  double occupied = 0;      // ready replicas' parts of their batch or KV cache in use, summed; 0: not known
  FirstTokens first_tokens{};  // that came in this tick
};

class DemandLaw {
 public:
  explicit DemandLaw(const ScalingPolicy& policy);

  // Once a tick. `replicas`: ready or starting; `coming`: the starting ones. `running`: requests at replicas.
  // `cold_start`: how long a start takes; zero: not known yet.
  uint32_t Decide(const DemandSignals& signals, double running, uint32_t replicas, uint32_t coming,
                  conf::Duration cold_start, conf::TimePoint now);

  // What the law has learned of the traffic (Hindsight).
  Hindsight::Memory memory() const { return hindsight_.memory(); }
  bool Recall(const Hindsight::Memory& memory, conf::TimePoint at, conf::TimePoint now) {
    return hindsight_.Recall(memory, at, now);
  }

  // As of the last tick.
  double demand() const { return demand_; }  // replicas
  const Headroom& headroom() const { return headroom_; }
  const Hindsight& hindsight() const { return hindsight_; }

 private:
  uint32_t Fewest(uint32_t replicas) const;

  DemandSettings settings_;
  conf::Duration ttft_;
  Headroom headroom_;
  Hindsight hindsight_;
  Load load_;
  Window fewest_;                         // numbers of replicas that sufficed recently
  std::optional<conf::TimePoint> began_;  // the first tick
  conf::TimePoint last_{};
  double demand_ = 0;
};

}  // namespace scheduler::autoscale
