// Our law: as many replicas as what arrives keeps busy, and what is under way.
//
//   level  = mean work over the window; or, if it is more, that of the last seconds less what chance may add
//   demand = the greater of level + margin * deviation (half of the level at most) and what is occupied,
//            + headroom for first tokens that came late (headroom.h), a part of that,
//            + backlog that has waited too long, over some seconds
//
// in replicas, where work is seconds of a replica (capacity.h) that arrive each second. More when demand is
// above up_at of those that are there or on their way. Fewer when it is below down_at of them and one less
// would still be below up_at; all through `hold`, in which the most that was wanted counts.
//
// The deviation is that of the last seconds' work from the level that was known a cold start before: what
// nobody who orders replicas now can see, steady growth and bursts alike. Chance is judged by how much the
// work of one tick differs from that of the next. The margin is meant for an attainment of 99 %; for another
// it is more or less, as the normal distribution has it.
//
// What is occupied are places in KV caches, and in batches that are as large as tokens still come in time:
// where answers are long it tells what the reckoned work does not, that they are longer than expected. A
// backlog counts once the oldest who waits has waited half of what a first token may take: the early sign
// that the measured rate says too little.
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
  conf::Duration oldest{};  // that waits
  double occupied = 0;      // ready replicas' parts of their batch or KV cache in use, summed; 0: not known
  FirstTokens first_tokens{};  // that came in this tick
};

class DemandLaw {
 public:
  explicit DemandLaw(const ScalingPolicy& policy);

  // Once a tick; of `replicas`, ready or on their way, `coming` are on their way. `cold_start`: how long a
  // start takes; zero: nobody knows yet.
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
  Window fewest_;                         // that sufficed, of late
  std::deque<Level> levels_;              // of the last cold start
  double recent_ = 0;                     // work of the last seconds
  double before_ = 0;                     // work of the last tick
  double noise_ = 0;                      // variance of a second's work, by chance
  double variance_ = 0;                   // of what came from what was expected
  std::optional<conf::TimePoint> began_;  // to listen
  conf::TimePoint last_{};
  double demand_ = 0;
};

}  // namespace scheduler::autoscale
