// Backoff: the delay before the next try: doubles from `min` to `max`. Each delay is drawn from its upper
// half, so that many clients that lost the same server do not return at once. Plain value, one thread.
#pragma once

#include <algorithm>
#include <cstdint>

#include "conf/time.h"

namespace gateway::net {

class Backoff {
 public:
  Backoff(conf::Duration min, conf::Duration max, uint64_t seed) : min_(min), max_(max), state_(seed) {}

  conf::Duration Next() {
    conf::Duration ceiling = std::min(min_, max_);
    for (uint32_t i = 0; i < tries_ && ceiling < max_; ++i) ceiling = std::min(2 * ceiling, max_);
    ++tries_;
    return Jitter(ceiling / 2, ceiling);
  }
  void Reset() { tries_ = 0; }

  // Uniform in [low, high].
  conf::Duration Jitter(conf::Duration low, conf::Duration high) {
    const uint64_t span = static_cast<uint64_t>((high - low).count()) + 1;
    return low + conf::Duration(static_cast<int64_t>(Draw() % span));
  }

 private:
  // SplitMix64 (Steele, Lea, Flood 2014).
  uint64_t Draw() {
    uint64_t z = state_ += 0x9e3779b97f4a7c15;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }

  conf::Duration min_;
  conf::Duration max_;
  uint64_t state_;
  uint32_t tries_ = 0;
};

}  // namespace gateway::net
