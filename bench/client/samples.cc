#include "bench/client/samples.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace bench {

void Samples::Add(conf::Duration d) {
  const int64_t us = std::chrono::duration_cast<std::chrono::microseconds>(d).count();
  micros_.push_back(static_cast<uint32_t>(std::clamp<int64_t>(us, 0, std::numeric_limits<uint32_t>::max())));
  sorted_ = false;
}

conf::Duration Samples::Quantile(double q) {
  if (micros_.empty()) return {};
  if (!sorted_) std::sort(micros_.begin(), micros_.end());
  sorted_ = true;
  const double rank = std::ceil(q * static_cast<double>(micros_.size()));
  const size_t at = rank < 1 ? 0 : static_cast<size_t>(rank) - 1;
  return std::chrono::microseconds(micros_[std::min(at, micros_.size() - 1)]);
}

nlohmann::ordered_json Samples::Summary() {
  const auto us = [this](double q) {
    return std::chrono::duration_cast<std::chrono::microseconds>(Quantile(q)).count();
  };
  return {{"p50_us", us(0.5)},
          {"p90_us", us(0.9)},
          {"p99_us", us(0.99)},
          {"max_us", us(1)},
          {"samples", micros_.size()}};
}

}  // namespace bench
