// The rate of good feedback on the answers of a model, with its confidence interval.
//
// Pure; any thread.
#pragma once

#include <cstdint>
#include <optional>

namespace router {

struct FeedbackTally {
  int64_t good = 0;
  int64_t bad = 0;
};

// A rate from 0 to 1, and the interval that contains the true rate with 95 % confidence: Wilson's score interval (E. B.
// Wilson, 1927), which is valid for few samples and for rates near 0 and 1, too.
struct FeedbackRate {
  double rate = 0;
  double low = 0;
  double high = 1;
};
// Absent without feedback.
std::optional<FeedbackRate> RateOf(const FeedbackTally& tally);

}  // namespace router
