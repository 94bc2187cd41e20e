// Recent samples, one a tick, and their means over any shorter time. Bounded by its length in ticks.
#pragma once

#include <cmath>
#include <deque>

#include "conf/time.h"

namespace scheduler::autoscale {

class Window {
 public:
  explicit Window(conf::Duration length) : length_(length) {}

  // Times must not go back. A value that is negative or not finite counts as 0.
  void Add(double value, conf::TimePoint now) {
    samples_.push_back({now, std::isfinite(value) && value > 0 ? value : 0});
    while (samples_.front().at <= now - length_) samples_.pop_front();
  }

  // Over the last `length`, as far as it is known; 0 without a sample.
  double Mean(conf::Duration length, conf::TimePoint now) const {
    double sum = 0;
    double count = 0;
    for (auto sample = samples_.rbegin(); sample != samples_.rend() && sample->at > now - length; ++sample) {
      sum += sample->value;
      ++count;
    }
    return count > 0 ? sum / count : 0;
  }

  double Most() const {
    double most = 0;
    for (const Sample& sample : samples_) most = std::fmax(most, sample.value);
    return most;
  }
  double Least() const {
    double least = samples_.empty() ? 0 : samples_.front().value;
    for (const Sample& sample : samples_) least = std::fmin(least, sample.value);
    return least;
  }
  bool empty() const { return samples_.empty(); }

 private:
  struct Sample {
    conf::TimePoint at;
    double value;
  };

  conf::Duration length_;
  std::deque<Sample> samples_;
};

}  // namespace scheduler::autoscale
