// How many requests an engine runs at most, where it does not say: the number that it ran, by its own counts,
// while others queued in it. A queue is more than a few requests that would wait longer than a step takes at
// the pace of our answers, in two observations in a row: every engine queues new requests for a step.
//
// The limit rises when the engine is seen to run more. When it runs that many without a queue the limit
// doubles, because what filled it (long contexts) may be gone.
//
// Telemetry that twice in a row counts less than half of our requests covers a part of the replica only (one
// pod behind a load-balanced address) and limits nothing. Pure; the caller locks.
#pragma once

#include "conf/time.h"

namespace router {

class ObservedBatchLimit {
 public:
  struct Observation {
    double running = 0;  // by the engine's telemetry
    double waiting = 0;  // likewise
    double ours = 0;     // our requests there at the same time
    double ended = 0;    // our requests that have ended there, ever
  };
  void Observe(const Observation& seen, conf::TimePoint now);

  double requests() const { return limit_; }  // 0: never seen full
  bool partial() const { return partial_; }   // the telemetry covers a part of the replica only

 private:
  bool Queues(const Observation& seen, conf::TimePoint now) const;

  double limit_ = 0;
  bool queued_ = false;  // in the last observation
  bool covered_ = true;  // in the last observation the engine counted at least half of ours
  bool partial_ = false;
  double ended_ = 0;
  conf::TimePoint at_{};
};

}  // namespace router
