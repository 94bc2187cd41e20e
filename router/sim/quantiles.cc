#include "router/sim/quantiles.h"

#include <algorithm>
#include <cstddef>

namespace router::sim {

Quantiles QuantilesOf(std::vector<double>& values) {
  if (values.empty()) return {};
  std::ranges::sort(values);
  const auto at = [&](double q) {
    return values[static_cast<size_t>(q * static_cast<double>(values.size() - 1))];
  };
  double sum = 0;
  for (double value : values) sum += value;
  return {sum / static_cast<double>(values.size()), at(0.5), at(0.9), at(0.99)};
}

}  // namespace router::sim
