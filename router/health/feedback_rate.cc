#include "router/health/feedback_rate.h"

#include <algorithm>
#include <cmath>

namespace router {
namespace {

constexpr double kZ = 1.959963984540054;  // of 95 %, two-sided

}  // namespace

std::optional<FeedbackRate> RateOf(const FeedbackTally& tally) {
  const auto n = static_cast<double>(tally.good + tally.bad);
  if (n <= 0) return std::nullopt;
  const double rate = static_cast<double>(tally.good) / n;
  const double scale = 1 / (1 + kZ * kZ / n);
  const double centre = scale * (rate + kZ * kZ / (2 * n));
  const double half = scale * kZ * std::sqrt(rate * (1 - rate) / n + kZ * kZ / (4 * n * n));
  return FeedbackRate{
      .rate = rate, .low = std::max(0.0, centre - half), .high = std::min(1.0, centre + half)};
}

}  // namespace router
