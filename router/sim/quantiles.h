// Mean and quantiles of what was measured; the lower neighbour where a quantile lies between two.
#pragma once

#include <vector>

namespace router::sim {

struct Quantiles {
  double mean = 0, p50 = 0, p90 = 0, p99 = 0;
};

// Sorts `values`; zeros of none.
Quantiles QuantilesOf(std::vector<double>& values);

}  // namespace router::sim
