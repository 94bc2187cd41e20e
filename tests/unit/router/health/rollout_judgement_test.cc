#include "router/health/rollout_judgement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/unit/router/routing_fixture.h"

namespace router {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;
using Verdict = RolloutJudgement::Verdict;
using Move = RolloutMove::Kind;

// Times that spread around `seconds` by a factor of `spread`, both ways alike.
LogSums Times(uint64_t count, double seconds, double spread = 1.5) {
  LogSums sums;
  for (uint64_t i = 0; i < count; ++i) {
    const double value = std::log(seconds) + (i % 2 == 0 ? 1 : -1) * std::log(spread);
    ++sums.count;
    sums.sum += value;
    sums.sum_of_squares += value * value;
  }
  return sums;
}

VersionSample Sample(uint64_t tries, uint64_t failures, double ttft = 0.2, double token = 0.02) {
  return {.tries = tries,
          .failures = failures,
          .first_token = Times(tries - failures, ttft),
          .token_time = Times(tries - failures, token)};
}

RolloutJudgement Judged(const VersionSample& fresh, const VersionSample& old, bool at_end = true) {
  return JudgeRollout(fresh, old, {}, 200, at_end);
}

TEST(RolloutJudgement, ALikeVersionIsGoodOnceTheStepHasLastedAndHasItsRequests) {
  EXPECT_EQ(Judged(Sample(400, 2), Sample(4000, 20)).verdict, Verdict::kGood);
  EXPECT_EQ(Judged(Sample(400, 2), Sample(4000, 20), false).verdict, Verdict::kMore);
  const RolloutJudgement few = Judged(Sample(120, 0), Sample(4000, 20));
  EXPECT_EQ(few.verdict, Verdict::kMore);
  EXPECT_THAT(few.why, HasSubstr("120 of the 200 requests"));
}

TEST(RolloutJudgement, AVersionThatOnlyFailsIsBadAfterAHandfulOfTries) {
  EXPECT_EQ(Judged(Sample(4, 4), Sample(500, 0), false).verdict, Verdict::kMore);
  const RolloutJudgement bad = Judged(Sample(6, 6), Sample(500, 0), false);
  EXPECT_EQ(bad.verdict, Verdict::kBad);
  EXPECT_THAT(bad.why, HasSubstr("100.00 % of 6 tries fail against 0.00 % of 500"));
}

TEST(RolloutJudgement, FailuresOfTriesBeforeTheSampleAreNoMoreThanAll) {
  const VersionSample late{.tries = 5, .failures = 7, .first_token = {}, .token_time = {}};
  EXPECT_EQ(Judged(late, Sample(500, 0), false).verdict, Verdict::kBad);
}

TEST(RolloutJudgement, AFewFailuresMayBeChance) {
  EXPECT_EQ(Judged(Sample(40, 2), Sample(4000, 4), false).verdict, Verdict::kMore);
  // 2 % of 200 against 0.1 %: beyond the bound of one point, and not certain yet.
  const RolloutJudgement open = Judged(Sample(200, 4), Sample(4000, 4));
  EXPECT_EQ(open.verdict, Verdict::kMore);
  EXPECT_THAT(open.why, HasSubstr("that may be chance"));
  EXPECT_EQ(Judged(Sample(2000, 60), Sample(40'000, 40)).verdict, Verdict::kBad);
}

TEST(RolloutJudgement, WhatFailsAtBothVersionsIsNoFaultOfTheNewOne) {
  EXPECT_EQ(Judged(Sample(1000, 300), Sample(10'000, 3000)).verdict, Verdict::kGood);
}

TEST(RolloutJudgement, ASlowerFirstTokenIsBadWhereItIsCertain) {
  EXPECT_EQ(Judged(Sample(400, 0, 0.24), Sample(4000, 0)).verdict, Verdict::kGood)
      << "1.2 times is within 1.25";
  const RolloutJudgement bad = Judged(Sample(400, 0, 0.4), Sample(4000, 0), false);
  EXPECT_EQ(bad.verdict, Verdict::kBad);
  EXPECT_THAT(bad.why, HasSubstr("the time to the first token is 2.00 times the old version's"));
  // 1.3 times over few times with a wide spread: not certain.
  VersionSample wide = Sample(200, 0);
  wide.first_token = Times(30, 0.26, 4);
  EXPECT_EQ(Judged(wide, Sample(4000, 0)).verdict, Verdict::kMore);
}

TEST(RolloutJudgement, FewerTokensPerSecondAreBadWhereThatIsCertain) {
  EXPECT_EQ(Judged(Sample(400, 0, 0.2, 0.023), Sample(4000, 0)).verdict, Verdict::kGood);
  const RolloutJudgement bad = Judged(Sample(400, 0, 0.2, 0.04), Sample(4000, 0));
  EXPECT_EQ(bad.verdict, Verdict::kBad);
  EXPECT_THAT(bad.why, HasSubstr("tokens per second are 0.50 times the old version's"));
}

TEST(RolloutJudgement, ABetterVersionIsGood) {
  EXPECT_EQ(Judged(Sample(400, 0, 0.05, 0.005), Sample(4000, 400)).verdict, Verdict::kGood);
}

TEST(RolloutJudgement, WithoutAnOldVersionOnlyFailuresCount) {
  EXPECT_EQ(Judged(Sample(400, 0, 9), {}).verdict, Verdict::kGood);
  EXPECT_EQ(Judged(Sample(400, 40), {}).verdict, Verdict::kBad);
}

// Tries that differ in nothing but feedback.
VersionSample Rated(uint64_t positive, uint64_t count) {
  VersionSample sample = Sample(400, 2);
  sample.ratings = {.count = count, .positive = positive};
  return sample;
}

RolloutJudgement JudgedByFeedback(const VersionSample& fresh, const VersionSample& old, bool at_end = true) {
  return JudgeRollout(fresh, old, {.feedback = FeedbackBound{.name = "helpful", .drop = 0.05}}, 200, at_end);
}

TEST(RolloutJudgement, AVersionWhoseAnswersHelpLessIsBadAndOneThatHelpsAsMuchIsGood) {
  const RolloutJudgement bad = JudgedByFeedback(Rated(60, 100), Rated(900, 1000), false);
  EXPECT_EQ(bad.verdict, Verdict::kBad);
  EXPECT_THAT(bad.why, HasSubstr("helpful is true of 60.0 % of 100 answers against 90.0 % of 1000"));
  EXPECT_EQ(JudgedByFeedback(Rated(88, 100), Rated(900, 1000)).verdict, Verdict::kGood);
  EXPECT_EQ(JudgedByFeedback(Rated(99, 100), Rated(900, 1000)).verdict, Verdict::kGood);
  // Somewhat less often: that may be chance.
  EXPECT_EQ(JudgedByFeedback(Rated(82, 100), Rated(900, 1000)).verdict, Verdict::kMore);
}

TEST(RolloutJudgement, FeedbackCountsFromTwentyAnswersOfEachVersionOnAndOnlyWhereItIsAskedFor) {
  EXPECT_EQ(JudgedByFeedback(Rated(0, 19), Rated(900, 1000)).verdict, Verdict::kGood);
  EXPECT_EQ(JudgedByFeedback(Rated(0, 100), Rated(19, 19)).verdict, Verdict::kGood);
  EXPECT_EQ(Judged(Rated(0, 100), Rated(900, 1000)).verdict, Verdict::kGood);
}

struct Steps : testing::Test {
  RolloutSteps steps{
      .percents = {5, 50, 100}, .hold = 10min, .patience = 1h, .min_requests = 200, .bounds = {}};
  RolloutStanding standing{.step = 0, .open = true, .since = kStart, .ready = 1, .wanted = 1};

  RolloutMove Next(const VersionSample& fresh, conf::Duration after) const {
    return NextRolloutMove(steps, standing, fresh, Sample(4000, 4), kStart + after);
  }
};

TEST_F(Steps, AShareIsGivenOnceItsReplicasAreReady) {
  standing.open = false;
  standing.ready = 1;
  standing.wanted = 2;
  EXPECT_EQ(Next({}, 1min).kind, Move::kStay);
  EXPECT_THAT(Next({}, 1min).why, HasSubstr("1 of 2 replicas"));
  standing.ready = 2;
  EXPECT_EQ(Next({}, 1min).kind, Move::kOpen);
}

TEST_F(Steps, ReplicasThatDoNotComeOrFailEndTheRollout) {
  standing.open = false;
  standing.ready = 0;
  EXPECT_EQ(Next({}, 61min).kind, Move::kRollBack);
  standing.failed = kMostFailedStarts;
  standing.last_failure = "exit code 1";
  const RolloutMove failed = Next({}, 1min);
  EXPECT_EQ(failed.kind, Move::kRollBack);
  EXPECT_THAT(failed.why, HasSubstr("3 replicas of the new version have failed: exit code 1"));
}

TEST_F(Steps, AVersionThatGetsNoRequestsBecauseItIsUnfitForThemEndsTheRollout) {
  standing.unusable = 59min;
  EXPECT_EQ(Next({}, 3h).kind, Move::kStay);
  standing.unusable = 61min;
  const RolloutMove unfit = Next({}, 3h);
  EXPECT_EQ(unfit.kind, Move::kRollBack);
  EXPECT_THAT(unfit.why, HasSubstr("no replica of the new version has been fit for requests"));
}

TEST_F(Steps, AGoodStepIsFollowedByTheNextAndTheLastByThePromotion) {
  EXPECT_EQ(Next(Sample(400, 0), 9min).kind, Move::kStay);
  EXPECT_EQ(Next(Sample(400, 0), 10min).kind, Move::kNext);
  standing.step = 2;
  EXPECT_EQ(Next(Sample(400, 0), 10min).kind, Move::kPromote);
}

TEST_F(Steps, ABadVersionIsRolledBackAtOnce) {
  EXPECT_EQ(Next(Sample(50, 25), 1s).kind, Move::kRollBack);
}

TEST_F(Steps, AStepWithTooFewRequestsWaitsForThemAndAnUndecidedOneEnds) {
  EXPECT_EQ(Next(Sample(20, 0), 24h).kind, Move::kStay);
  EXPECT_EQ(Next(Sample(200, 4), 59min).kind, Move::kStay);
  const RolloutMove ended = Next(Sample(200, 4), 61min);
  EXPECT_EQ(ended.kind, Move::kRollBack);
  EXPECT_THAT(ended.why, HasSubstr("no verdict within 1h"));
}

}  // namespace
}  // namespace router
