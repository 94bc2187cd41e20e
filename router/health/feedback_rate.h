// How well a version of a model is received, as a signal: the rate of good feedback with the interval in which
// it lies, and whether the rates of two versions differ. What rolls versions out, or compares two models, reads
// it; it decides nothing itself.
//
// Pure; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace router {

struct FeedbackTally {
  int64_t good = 0;
  int64_t bad = 0;
};

// A rate from 0 to 1, and where the true one lies with 95 % confidence: Wilson's score interval (E. B. Wilson,
// 1927), which holds for few samples and for rates near 0 and 1, too.
struct FeedbackRate {
  double rate = 0;
  double low = 0;
  double high = 1;
};
// Nothing without feedback.
std::optional<FeedbackRate> RateOf(const FeedbackTally& tally);

enum class FeedbackVerdict : uint8_t { kTooFew, kNoDifference, kBetter, kWorse };
std::string_view Name(FeedbackVerdict verdict);

// Of the candidate's rate less the baseline's, -1 to 1, with its interval of 95 %: Newcombe's hybrid score
// (R. G. Newcombe, 1998, method 10).
struct FeedbackComparison {
  FeedbackVerdict verdict = FeedbackVerdict::kTooFew;
  double difference = 0;
  double low = -1;
  double high = 1;
};
// kTooFew where either has fewer than `least` samples.
FeedbackComparison CompareFeedback(const FeedbackTally& baseline, const FeedbackTally& candidate,
                                   int64_t least = 30);

}  // namespace router
