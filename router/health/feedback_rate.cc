#include "router/health/feedback_rate.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace router {
namespace {

constexpr double kZ = 1.959963984540054;  // of 95 %, two-sided

int64_t TotalOf(const FeedbackTally& tally) {
  return tally.good + tally.bad;
}

}  // namespace

std::string_view Name(FeedbackVerdict verdict) {
  constexpr std::array<std::string_view, 4> kNames = {"too_few", "no_difference", "better", "worse"};
  return kNames[static_cast<size_t>(verdict)];
}

std::optional<FeedbackRate> RateOf(const FeedbackTally& tally) {
  const auto n = static_cast<double>(TotalOf(tally));
  if (n <= 0) return std::nullopt;
  const double rate = static_cast<double>(tally.good) / n;
  const double scale = 1 / (1 + kZ * kZ / n);
  const double centre = scale * (rate + kZ * kZ / (2 * n));
  const double half = scale * kZ * std::sqrt(rate * (1 - rate) / n + kZ * kZ / (4 * n * n));
  return FeedbackRate{
      .rate = rate, .low = std::max(0.0, centre - half), .high = std::min(1.0, centre + half)};
}

FeedbackComparison CompareFeedback(const FeedbackTally& baseline, const FeedbackTally& candidate,
                                   int64_t least) {
  FeedbackComparison out;
  const std::optional<FeedbackRate> before = RateOf(baseline);
  const std::optional<FeedbackRate> after = RateOf(candidate);
  if (!before || !after) return out;
  out.difference = after->rate - before->rate;
  out.low = out.difference - std::hypot(after->rate - after->low, before->high - before->rate);
  out.high = out.difference + std::hypot(after->high - after->rate, before->rate - before->low);
  if (TotalOf(baseline) < least || TotalOf(candidate) < least) return out;
  out.verdict = out.low > 0    ? FeedbackVerdict::kBetter
                : out.high < 0 ? FeedbackVerdict::kWorse
                               : FeedbackVerdict::kNoDifference;
  return out;
}

}  // namespace router
