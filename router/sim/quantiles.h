// Mean and quantiles of samples; a quantile between two samples is the lower one.
#pragma once

#include <vector>

namespace router::sim {

struct Quantiles {
  double mean = 0, p50 = 0, p90 = 0, p99 = 0;
};

// Sorts `values`. All zero when there are none.
Quantiles QuantilesOf(std::vector<double>& values);

}  // namespace router::sim
