// Measured numbers, their quantiles and their maximum.
#pragma once

#include <time.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

namespace bench::clusters {

class Samples {
 public:
  void Add(double value) { values_.push_back(value); }
  size_t size() const { return values_.size(); }
  // 0.5: the median.
  double At(double part) const {
    if (values_.empty()) return 0;
    std::vector<double> sorted = values_;
    std::ranges::sort(sorted);
    return sorted[std::min(static_cast<size_t>(part * static_cast<double>(sorted.size())),
                           sorted.size() - 1)];
  }
  nlohmann::json ToJson() const {
    return {{"n", size()}, {"p50", At(0.5)}, {"p99", At(0.99)}, {"most", At(1)}};
  }

 private:
  std::vector<double> values_;
};

// CPU time of the calling thread, in microseconds.
inline double ThreadMicros() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) * 1e6 + static_cast<double>(time.tv_nsec) * 1e-3;
}

}  // namespace bench::clusters
