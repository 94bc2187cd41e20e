// How many requests an engine runs at most, where it does not say: as many as it ran while others queued in
// it, by its own counts. A queue is more than a few requests that at the pace of our answers wait longer than
// a step takes, seen twice running: requests that have just come stand in every engine's queue for a step.
// Whoever is seen to run more can run more; whoever runs that many and has no queue is taken to run twice as
// many, since what it was full of (long contexts) may be gone.
//
// Telemetry that twice running counts less than half of what we have sent is of a part of the replica (one
// pod behind an address that spreads requests) and bounds nothing. Pure; the caller locks.
#pragma once

#include "conf/time.h"

namespace router {

class FullBatch {
 public:
  struct Sight {
    double running = 0;  // by the engine's word
    double waiting = 0;
    double ours = 0;   // requests of ours there, at the same time
    double ended = 0;  // requests of ours that have ended there, ever
  };
  void Saw(const Sight& sight, conf::TimePoint now);

  double requests() const { return full_; }  // 0: it was never seen full
  bool partial() const { return partial_; }

 private:
  bool Queues(const Sight& sight, conf::TimePoint now) const;

  double full_ = 0;
  bool queued_ = false;  // at the last sight
  bool covered_ = true;  // likewise: it counted most of ours
  bool partial_ = false;
  double ended_ = 0;
  conf::TimePoint at_{};
};

}  // namespace router
