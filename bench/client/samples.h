// Samples: durations as they were measured, and the quantiles of them. Exact: every sample is kept, 4 bytes
// each, in microseconds (at most 71 minutes). One thread.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <vector>

#include "conf/time.h"

namespace bench {

class Samples {
 public:
  void Add(conf::Duration d);
  size_t size() const { return micros_.size(); }

  // The smallest sample that at least the share q of all do not exceed; 0 without samples.
  conf::Duration Quantile(double q);

  // {"p50_us","p90_us","p99_us","max_us","samples"}
  nlohmann::ordered_json Summary();

 private:
  std::vector<uint32_t> micros_;
  bool sorted_ = true;
};

}  // namespace bench
