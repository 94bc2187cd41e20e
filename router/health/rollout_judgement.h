// Whether a new version of a model may have more of its requests, judged against the version that serves the others.
//
// Compared are the share of tries that failed, the time to the first token, the tokens per second and, where the policy
// names some, the callers' feedback, each with its uncertainty. Failures and feedback: the difference of two proportions, with Newcombe's hybrid score interval (Newcombe 1998,
// method 10). Times: the ratio of geometric means, with the interval of the difference of two means of logarithms
// (Welch), since such times are skewed to the right.
//
// A bound counts as broken only where the whole interval lies beyond it. While a step runs, one looks often, so the
// interval is wide (one in two thousand by chance); at the end of a step it is that of one in twenty.
//
// Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "conf/time.h"

namespace router {

// Sums of the natural logarithms of observed values.
struct LogSums {
  uint64_t count = 0;
  double sum = 0;
  double sum_of_squares = 0;
};

// Feedback of one name on a version's answers: true or false, of each key and request the latest.
struct Ratings {
  uint64_t count = 0;
  uint64_t positive = 0;  // of them
};

// The results of one version since a moment.
struct VersionSample {
  uint64_t tries = 0;
  uint64_t failures = 0;  // of the tries
  LogSums first_token;    // seconds from the request's dispatch
  LogSums token_time;     // seconds between two tokens
  Ratings ratings{};      // of RolloutBounds::feedback
};

// The feedback that measures how good answers are, and by how much its rate may be lower for the new version.
struct FeedbackBound {
  std::string name;
  double drop = 0.05;  // of the share that is true

  friend bool operator==(const FeedbackBound&, const FeedbackBound&) = default;
};

// By how much the new version may be worse.
struct RolloutBounds {
  double errors = 0.01;            // share of tries that fail beyond the old version's
  double ttft = 1.25;              // times the old version's
  double tokens_per_second = 0.8;  // at least this part of the old version's
  std::optional<FeedbackBound> feedback{};

  friend bool operator==(const RolloutBounds&, const RolloutBounds&) = default;
};

struct RolloutJudgement {
  enum class Verdict : uint8_t { kMore, kGood, kBad };
  Verdict verdict = Verdict::kMore;
  std::string why;
};

// `at_end`: the step has lasted as long as it was to.
RolloutJudgement JudgeRollout(const VersionSample& fresh, const VersionSample& old,
                              const RolloutBounds& bounds, uint64_t min_requests, bool at_end);

// --- The steps ---

struct RolloutSteps {
  std::vector<double> percents;  // of the requests, rising; the last is 100
  conf::Duration hold{};         // the least duration of each step
  // How long its replicas may take to be ready, and how long it may last without a verdict over enough requests.
  conf::Duration patience{};
  uint64_t min_requests = 0;  // of the new version in a step
  RolloutBounds bounds;
};

struct RolloutStanding {
  size_t step = 0;
  bool open = false;        // the step's share is in force; before, its replicas start
  conf::TimePoint since{};  // the step, or its opening
  uint32_t ready = 0;       // replicas of the new version
  uint32_t wanted = 1;      // ... for this step
  uint32_t failed = 0;      // ... that have failed since the rollout began
  std::string last_failure{};
  conf::Duration unusable{};  // for so long no replica of the new version has been fit for requests
};

struct RolloutMove {
  enum class Kind : uint8_t { kStay, kOpen, kNext, kPromote, kRollBack };
  Kind kind = Kind::kStay;
  std::string why;
};
std::string_view NameOf(RolloutMove::Kind kind);

// New replicas that may fail before the version is taken for broken.
inline constexpr uint32_t kMostFailedStarts = 3;

RolloutMove NextRolloutMove(const RolloutSteps& steps, const RolloutStanding& standing,
                            const VersionSample& fresh, const VersionSample& old, conf::TimePoint now);

}  // namespace router
