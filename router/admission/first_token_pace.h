// How soon first tokens come at a replica, from those that came: how many a second while somebody waits for
// one, and how long it takes who finds nobody waiting. What a new request waits there is, by Little's law,
// those before it over the first; what goes beyond the second is a queue's doing. The last twenty count, so
// that a batch that was full a while ago says little. Pure; the caller locks.
#pragma once

#include <algorithm>

namespace router {

class FirstTokenPace {
 public:
  // One came, `seconds` after the one before it or since somebody waits.
  void Came(double seconds) {
    count_ = count_ * kKept + 1;
    seconds_ = seconds_ * kKept + std::max(seconds, kShortest);
  }
  // ... to a request that had found nobody waiting, `seconds` after it was sent.
  void CameAlone(double seconds) {
    alone_count_ = alone_count_ * kKept + 1;
    alone_seconds_ = alone_seconds_ * kKept + std::clamp(seconds, 0.0, kLongestAlone);
  }

  double per_second() const { return seconds_ > 0 ? count_ / seconds_ : 0; }  // 0: not measured
  double alone() const { return alone_count_ > 0 ? alone_seconds_ / alone_count_ : 0; }

 private:
  static constexpr double kKept = 0.95;
  static constexpr double kShortest = 1e-5;
  static constexpr double kLongestAlone = 5;  // a first request that compiles kernels is no measure

  double count_ = 0;
  double seconds_ = 0;
  double alone_count_ = 0;
  double alone_seconds_ = 0;
};

}  // namespace router
