// The demand law, our own: as many replicas as the arriving work keeps busy.
//
//   level  = mean work over the window; or the recent work less what chance may add, if that is more
//   demand = the greater of level + margin * deviation (half of the level at most) and occupancy,
//            + headroom for first tokens that came late (headroom.h), a part of that,
//            + backlog that has waited too long, over some seconds
//
// in replicas; work is seconds of a replica (capacity.h) that arrive each second. The law scales up when
// demand is above up_at of the replicas that are ready or coming. It scales down when demand is below down_at
// of them and one replica less would still be below up_at, all through `hold`; within `hold` the highest
// wanted number counts.
//
// The deviation is that of the recent work from the level that was known a cold start earlier. It covers what
// could not be known when replicas had to be ordered, steady growth and bursts alike. Chance is estimated by
// how much the work of one tick differs from that of the next. The margin is meant for an attainment of 99 %;
// for another attainment it is scaled by the normal distribution.
//
// Occupancy counts places in KV caches, and in batches that are as large as the token target allows. Where
// answers are longer than expected, it shows demand that the estimated work misses. A backlog counts once its
// oldest request has waited for half of slo.ttft, which is the early sign that the measured rate is too low.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string_view>

#include "scheduler/autoscale/headroom.h"
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

  // Once a tick; of `replicas`, ready or on their way, `coming` are on their way. `cold_start`: how long a
  // start takes; zero: not known yet.
  uint32_t Decide(const DemandSignals& signals, uint32_t replicas, uint32_t coming, conf::Duration cold_start,
                  conf::TimePoint now);

  // As of the last tick.
  double demand() const { return demand_; }  // replicas
  const Headroom& headroom() const { return headroom_; }

 private:
  struct Level {
    conf::TimePoint at;
    double work;
  };
  double LevelNow(double work, double passed, conf::TimePoint now);
  void LearnDeviation(double level, double passed, conf::Duration cold_start, conf::TimePoint now);
  uint32_t Fewest(uint32_t replicas) const;

  DemandSettings settings_;
  conf::Duration ttft_;
  double margin_;
  Headroom headroom_;
  Window work_;
  Window fewest_;                         // numbers of replicas that sufficed recently
  std::deque<Level> levels_;              // of the last cold start
  double recent_ = 0;                     // recent work
  double before_ = 0;                     // work of the last tick
  double noise_ = 0;                      // variance of a second's work, by chance
  double variance_ = 0;                   // of the work that came from the work that was expected
  std::optional<conf::TimePoint> began_;  // to listen
  conf::TimePoint last_{};
  double demand_ = 0;
};

}  // namespace scheduler::autoscale
