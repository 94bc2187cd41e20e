#include "router/health/rollout_judgement.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "conf/shown.h"
#include "conf/words.h"

namespace router {
namespace {

using Verdict = RolloutJudgement::Verdict;

constexpr double kSure = 3.29;     // standard deviations that chance exceeds once in 2,000 times, on one side
constexpr double kLikely = 1.645;  // ... once in 20
constexpr uint64_t kFewest = 5;    // tries before failures are looked at
constexpr uint64_t kFewestRatings = 20;
constexpr uint64_t kFewestTimes = 20;  // times before they are compared

constexpr conf::Word<RolloutMove::Kind> kMoveWords[] = {{"stay", RolloutMove::Kind::kStay},
                                                        {"open", RolloutMove::Kind::kOpen},
                                                        {"next", RolloutMove::Kind::kNext},
                                                        {"promote", RolloutMove::Kind::kPromote},
                                                        {"roll_back", RolloutMove::Kind::kRollBack}};

struct Interval {
  double low = 0;
  double estimate = 0;
  double high = 0;
};

// Wilson's score interval of a proportion.
Interval ProportionOf(uint64_t of, uint64_t all, double z) {
  if (all == 0) return {0, 0, 1};
  const auto n = static_cast<double>(all);
  const double p = static_cast<double>(std::min(of, all)) / n;  // failures of earlier tries may come late
  const double middle = p + z * z / (2 * n);
  const double half = z * std::sqrt(p * (1 - p) / n + z * z / (4 * n * n));
  const double scale = 1 + z * z / n;
  return {std::max(0.0, (middle - half) / scale), p, std::min(1.0, (middle + half) / scale)};
}

// Newcombe's hybrid score interval of p1 - p2.
Interval DifferenceOf(const Interval& one, const Interval& two) {
  const double d = one.estimate - two.estimate;
  return {d - std::hypot(one.estimate - one.low, two.high - two.estimate), d,
          d + std::hypot(one.high - one.estimate, two.estimate - two.low)};
}

double MeanOf(const LogSums& sums) {
  return sums.sum / static_cast<double>(sums.count);
}

// The variance of the mean.
double VarianceOf(const LogSums& sums) {
  const auto n = static_cast<double>(sums.count);
  const double of_values = std::max(0.0, (sums.sum_of_squares - sums.sum * sums.sum / n) / (n - 1));
  return of_values / n;
}

// The geometric mean of one, as a multiple of the other's. Nothing while there are too few.
std::optional<Interval> RatioOf(const LogSums& one, const LogSums& two, double z) {
  if (one.count < kFewestTimes || two.count < kFewestTimes) return std::nullopt;
  const double d = MeanOf(one) - MeanOf(two);
  const double half = z * std::sqrt(VarianceOf(one) + VarianceOf(two));
  return Interval{std::exp(d - half), std::exp(d), std::exp(d + half)};
}

struct Finding {
  bool broken = false;   // the whole interval is beyond the bound
  bool outside = false;  // the estimate is
  std::string text;
};

class Judge {
 public:
  Judge(const VersionSample& fresh, const VersionSample& old, const RolloutBounds& bounds)
      : fresh_(fresh), old_(old), bounds_(bounds) {}

  std::vector<Finding> Compare(double z) const {
    std::vector<Finding> findings;
    if (fresh_.tries >= kFewest) findings.push_back(Errors(z));
    if (const auto ratio = RatioOf(fresh_.first_token, old_.first_token, z)) {
      findings.push_back(
          {ratio->low > bounds_.ttft, ratio->estimate > bounds_.ttft,
           fmt::format("the time to the first token is {:.2f} times the old version's, and at most "
                       "{:.2f} is allowed",
                       ratio->estimate, bounds_.ttft)});
    }
    if (const auto ratio = RatioOf(old_.token_time, fresh_.token_time, z)) {
      findings.push_back(
          {ratio->high < bounds_.tokens_per_second, ratio->estimate < bounds_.tokens_per_second,
           fmt::format("tokens per second are {:.2f} times the old version's, and at least {:.2f} is "
                       "allowed",
                       ratio->estimate, bounds_.tokens_per_second)});
    }
    if (bounds_.feedback && fresh_.ratings.count >= kFewestRatings && old_.ratings.count >= kFewestRatings)
      findings.push_back(Feedback(*bounds_.feedback, z));
    return findings;
  }

 private:
  Finding Errors(double z) const {
    const Interval fresh = ProportionOf(fresh_.failures, fresh_.tries, z);
    // Without tries of the old version, its failures are taken to be none.
    const Interval old = old_.tries == 0 ? Interval() : ProportionOf(old_.failures, old_.tries, z);
    const Interval more = DifferenceOf(fresh, old);
    return {more.low > bounds_.errors, more.estimate > bounds_.errors,
            fmt::format(
                "{:.2f} % of {} tries fail against {:.2f} % of {} of the old version, and at most {:.2f} "
                "points more are allowed",
                100 * fresh.estimate, fresh_.tries, 100 * old.estimate, old_.tries, 100 * bounds_.errors)};
  }

  Finding Feedback(const FeedbackBound& bound, double z) const {
    const Interval fresh = ProportionOf(fresh_.ratings.positive, fresh_.ratings.count, z);
    const Interval old = ProportionOf(old_.ratings.positive, old_.ratings.count, z);
    const Interval drop = DifferenceOf(old, fresh);
    return {
        drop.low > bound.drop, drop.estimate > bound.drop,
        fmt::format("{} is true of {:.1f} % of {} answers against {:.1f} % of {} of the old version, and at "
                    "most {:.1f} points less are allowed",
                    bound.name, 100 * fresh.estimate, fresh_.ratings.count, 100 * old.estimate,
                    old_.ratings.count, 100 * bound.drop)};
  }

  const VersionSample& fresh_;
  const VersionSample& old_;
  const RolloutBounds& bounds_;
};

}  // namespace

std::string_view NameOf(RolloutMove::Kind kind) {
  return conf::WordOf(kMoveWords, kind);
}

RolloutJudgement JudgeRollout(const VersionSample& fresh, const VersionSample& old,
                              const RolloutBounds& bounds, uint64_t min_requests, bool at_end) {
  const Judge judge(fresh, old, bounds);
  for (const Finding& finding : judge.Compare(kSure)) {
    if (finding.broken) return {Verdict::kBad, finding.text};
  }
  if (fresh.tries < min_requests) {
    return {Verdict::kMore, fmt::format("the new version has had {} of the {} requests that a step needs",
                                        fresh.tries, min_requests)};
  }
  if (!at_end) return {Verdict::kMore, "within the bounds so far"};
  const std::vector<Finding> findings = judge.Compare(kLikely);
  for (const Finding& finding : findings) {
    if (finding.broken) return {Verdict::kBad, finding.text};
  }
  for (const Finding& finding : findings) {
    if (finding.outside) return {Verdict::kMore, finding.text + "; that may be chance"};
  }
  return {Verdict::kGood, fmt::format("within the bounds over {} requests", fresh.tries)};
}

RolloutMove NextRolloutMove(const RolloutSteps& steps, const RolloutStanding& standing,
                            const VersionSample& fresh, const VersionSample& old, conf::TimePoint now) {
  using Kind = RolloutMove::Kind;
  if (standing.failed >= kMostFailedStarts) {
    return {Kind::kRollBack, fmt::format("{} replicas of the new version have failed: {}", standing.failed,
                                         standing.last_failure)};
  }
  const conf::Duration lasted = now - standing.since;
  if (!standing.open) {
    if (standing.ready >= standing.wanted)
      return {Kind::kOpen,
              fmt::format("{} of the new version {} ready", conf::Counted(standing.ready, "replica"),
                          standing.ready == 1 ? "is" : "are")};
    if (lasted > steps.patience)
      return {Kind::kRollBack, fmt::format("only {} of {} replicas of the new version were ready within {}",
                                           standing.ready, standing.wanted, conf::InWords(steps.patience))};
    return {Kind::kStay,
            fmt::format("{} of {} replicas of the new version are ready", standing.ready, standing.wanted)};
  }
  const RolloutJudgement judged =
      JudgeRollout(fresh, old, steps.bounds, steps.min_requests, lasted >= steps.hold);
  if (judged.verdict == Verdict::kBad) return {Kind::kRollBack, judged.why};
  // It gets no requests then by which it could be judged.
  if (standing.unusable > steps.patience)
    return {Kind::kRollBack, fmt::format("for {} no replica of the new version has been fit for requests",
                                         conf::InWords(standing.unusable))};
  if (judged.verdict == Verdict::kGood) {
    const bool last = standing.step + 1 >= steps.percents.size();
    return {last ? Kind::kPromote : Kind::kNext, judged.why};
  }
  if (lasted > steps.patience && fresh.tries >= steps.min_requests)
    return {Kind::kRollBack,
            fmt::format("no verdict within {}: {}", conf::InWords(steps.patience), judged.why)};
  return {Kind::kStay, judged.why};
}

}  // namespace router
