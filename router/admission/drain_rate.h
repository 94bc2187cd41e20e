// How fast a queue drains: cost dispatched per second in which requests waited. Older time counts half as
// much after every half-life; time with an empty queue does not count, nor does time in which no replica was there
// to dispatch to. Pure; the caller locks.
#pragma once

#include <cmath>

#include "conf/time.h"

namespace router {

class DrainRate {
 public:
  static constexpr conf::Duration kHalfLife = std::chrono::seconds(10);

  // The queue is no longer empty, or has become empty.
  void Backlogged(bool backlogged, conf::TimePoint now) {
    Advance(now);
    backlogged_ = backlogged;
  }

  // Replicas start: what was measured until the next dispatch says nothing of the time after it.
  void ReplicasStart() { starts_anew_ = true; }

  void Dispatched(double cost, conf::TimePoint now) {
    Advance(now);
    if (starts_anew_) cost_ = seconds_ = 0;
    starts_anew_ = false;
    cost_ += cost;
  }

  // 0: nothing measured yet. Falls while requests wait and none is dispatched.
  double PerSecond(conf::TimePoint now) const {
    DrainRate then = *this;
    then.Advance(now);
    return then.seconds_ > 0 ? then.cost_ / then.seconds_ : 0;
  }

 private:
  void Advance(conf::TimePoint now) {
    if (backlogged_ && now > at_) {
      const double passed = conf::ToSeconds(now - at_);
      const double kept = std::exp2(-passed / conf::ToSeconds(kHalfLife));
      cost_ *= kept;
      seconds_ = seconds_ * kept + passed;
    }
    at_ = now;
  }

  bool backlogged_ = false;
  bool starts_anew_ = false;
  conf::TimePoint at_{};
  double cost_ = 0;
  double seconds_ = 0;
};

}  // namespace router
