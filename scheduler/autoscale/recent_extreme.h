// The greatest or the least of the recent samples, in constant time for each sample.
#pragma once

#include <deque>

#include "conf/time.h"

namespace scheduler::autoscale {

template <bool kMost>
class RecentExtreme {
 public:
  // Times must not go back; `length` may differ from call to call.
  void Add(double value, conf::Duration length, conf::TimePoint now) {
    while (!samples_.empty() && (kMost ? samples_.back().value <= value : samples_.back().value >= value))
      samples_.pop_back();
    samples_.push_back({now, value});
    while (samples_.front().at < now - length) samples_.pop_front();
  }
  double value() const { return samples_.empty() ? 0 : samples_.front().value; }

 private:
  struct Sample {
    conf::TimePoint at;
    double value;
  };
  std::deque<Sample> samples_;
};
using RecentMost = RecentExtreme<true>;
using RecentLeast = RecentExtreme<false>;

}  // namespace scheduler::autoscale
