#include "router/health/breaker.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace router {
namespace {

using namespace std::chrono_literals;
using conf::TimePoint;
using Phase = Breaker::Phase;

constexpr TimePoint kBegun{1'000'000s};

void FailUntilOpen(Breaker& breaker, TimePoint now) {
  for (int i = 0; i < 5; ++i) breaker.Report(Outcome::kBad, Admission::kAdmitted, now);
  ASSERT_EQ(breaker.phase(now), Phase::kOpen);
}

TEST(Breaker, JudgesAnswersByStatus) {
  struct Case {
    int status;
    bool retry_after;
    Outcome outcome;
  };
  for (const Case& c :
       {Case{200, false, Outcome::kGood}, Case{302, false, Outcome::kBad},
        Case{400, false, Outcome::kNeutral}, Case{401, false, Outcome::kNeutral},
        Case{404, false, Outcome::kNeutral}, Case{429, true, Outcome::kNeutral},
        Case{500, false, Outcome::kBad}, Case{501, false, Outcome::kNeutral}, Case{502, false, Outcome::kBad},
        Case{503, true, Outcome::kNeutral}, Case{503, false, Outcome::kBad}, Case{504, false, Outcome::kBad},
        Case{529, false, Outcome::kNeutral}}) {
    EXPECT_EQ(OutcomeOf(c.status, c.retry_after), c.outcome) << c.status;
  }
}

TEST(Breaker, ClientErrorsNeverOpenIt) {
  Breaker breaker;
  for (int i = 0; i < 1000; ++i) breaker.Report(OutcomeOf(400 + i % 30, false), Admission::kAdmitted, kBegun);
  EXPECT_EQ(breaker.Admit(kBegun), Admission::kAdmitted);
}

TEST(Breaker, OpensOnConsecutiveFailures) {
  Breaker breaker;
  for (int i = 0; i < 4; ++i) breaker.Report(Outcome::kBad, Admission::kAdmitted, kBegun);
  breaker.Report(Outcome::kGood, Admission::kAdmitted, kBegun);
  for (int i = 0; i < 4; ++i) breaker.Report(Outcome::kBad, Admission::kAdmitted, kBegun);
  EXPECT_TRUE(breaker.Allows(kBegun));
  breaker.Report(Outcome::kBad, Admission::kAdmitted, kBegun);
  EXPECT_FALSE(breaker.Allows(kBegun));
  EXPECT_EQ(breaker.Admit(kBegun), Admission::kRefused);
  EXPECT_EQ(breaker.RetryAt(kBegun), kBegun + 5s);
}

TEST(Breaker, OpensOnARateOfFailuresWithinTheWindowOnly) {
  for (const auto& [pause, open] : {std::pair(100ms, true), std::pair(11s + 0ms, false)}) {
    Breaker breaker;
    TimePoint now = kBegun;
    for (int i = 0; i < 15; ++i) {
      breaker.Report(Outcome::kBad, Admission::kAdmitted, now);
      breaker.Report(Outcome::kGood, Admission::kAdmitted, now);
      now += pause;
    }
    EXPECT_EQ(!breaker.Allows(now), open);
  }
}

TEST(Breaker, LetsOneTrialThroughAtATime) {
  Breaker breaker;
  FailUntilOpen(breaker, kBegun);
  const TimePoint later = kBegun + 5s;
  EXPECT_EQ(breaker.phase(later), Phase::kHalfOpen);
  EXPECT_EQ(breaker.Admit(later), Admission::kTrial);
  EXPECT_EQ(breaker.Admit(later), Admission::kRefused);
  EXPECT_EQ(breaker.RetryAt(later), later + 1s);
  breaker.Abandon(Admission::kTrial);
  EXPECT_EQ(breaker.Admit(later), Admission::kTrial);
  breaker.Report(Outcome::kGood, Admission::kTrial, later);
  EXPECT_EQ(breaker.phase(later), Phase::kClosed);
  EXPECT_EQ(breaker.Admit(later), Admission::kAdmitted);
}

TEST(Breaker, ASilentTrialIsGivenUp) {
  Breaker breaker;
  FailUntilOpen(breaker, kBegun);
  EXPECT_EQ(breaker.Admit(kBegun + 5s), Admission::kTrial);
  EXPECT_EQ(breaker.Admit(kBegun + 64s), Admission::kRefused);
  EXPECT_EQ(breaker.Admit(kBegun + 65s), Admission::kTrial);
}

TEST(Breaker, BacksOffExponentiallyUpToItsCap) {
  Breaker breaker;
  TimePoint now = kBegun;
  FailUntilOpen(breaker, now);
  for (const conf::Duration expected : std::vector<conf::Duration>{5s, 10s, 20s, 40s, 60s, 60s}) {
    EXPECT_EQ(breaker.RetryAt(now) - now, expected);
    now = breaker.RetryAt(now);
    ASSERT_EQ(breaker.Admit(now), Admission::kTrial);
    breaker.Report(Outcome::kBad, Admission::kTrial, now);
  }
  now = breaker.RetryAt(now);
  ASSERT_EQ(breaker.Admit(now), Admission::kTrial);
  breaker.Report(Outcome::kGood, Admission::kTrial, now);
  FailUntilOpen(breaker, now);
  EXPECT_EQ(breaker.RetryAt(now) - now, 5s);
}

TEST(Breaker, LateResultsOfOldRequestsChangeNothingWhileOpen) {
  Breaker breaker;
  FailUntilOpen(breaker, kBegun);
  for (int i = 0; i < 100; ++i) breaker.Report(Outcome::kGood, Admission::kAdmitted, kBegun);
  EXPECT_EQ(breaker.phase(kBegun), Phase::kOpen);
  for (int i = 0; i < 100; ++i) breaker.Report(Outcome::kBad, Admission::kAdmitted, kBegun + 4s);
  EXPECT_EQ(breaker.RetryAt(kBegun), kBegun + 5s);
}

TEST(Breaker, RestsAsLongAsAskedAndNoLongerThanItsCap) {
  Breaker breaker;
  breaker.Rest(3s, kBegun);
  breaker.Rest(1s, kBegun);
  EXPECT_FALSE(breaker.Allows(kBegun + 2999ms));
  EXPECT_TRUE(breaker.IsResting(kBegun));
  EXPECT_TRUE(breaker.Allows(kBegun + 3s));
  EXPECT_EQ(breaker.phase(kBegun), Phase::kClosed);
  breaker.Rest(24h, kBegun + 10s);
  EXPECT_EQ(breaker.RetryAt(kBegun + 10s), kBegun + 70s);
  Breaker unsaid;
  unsaid.Rest(std::nullopt, kBegun);
  EXPECT_EQ(unsaid.RetryAt(kBegun), kBegun + 1s);
}

TEST(Breaker, APauseThatOneCallerWasAskedForIsShortForTheOthers) {
  Breaker breaker({.several_callers = true});
  breaker.Rest(60s, kBegun, 7);
  EXPECT_EQ(breaker.RetryAt(kBegun), kBegun + 1s);
  breaker.Rest(60s, kBegun + 2s, 7);
  EXPECT_TRUE(breaker.Allows(kBegun + 3s)) << "the same again";
  breaker.Rest(50s, kBegun + 4s, 8);
  EXPECT_EQ(breaker.RetryAt(kBegun + 4s), kBegun + 54s) << "a second one";
  breaker.Rest(60s, kBegun + 100s, 7);
  EXPECT_EQ(breaker.RetryAt(kBegun + 100s), kBegun + 101s) << "the other was asked long ago";
  breaker.Rest(60s, kBegun + 200s);
  EXPECT_EQ(breaker.RetryAt(kBegun + 200s), kBegun + 260s) << "it is nobody's doing";
}

TEST(Breaker, SeveralTrialsMustSucceedWhenSoConfigured) {
  Breaker breaker({.trials = 2});
  FailUntilOpen(breaker, kBegun);
  const TimePoint later = kBegun + 5s;
  ASSERT_EQ(breaker.Admit(later), Admission::kTrial);
  breaker.Report(Outcome::kGood, Admission::kTrial, later);
  EXPECT_EQ(breaker.phase(later), Phase::kHalfOpen);
  ASSERT_EQ(breaker.Admit(later), Admission::kTrial);
  breaker.Report(Outcome::kGood, Admission::kTrial, later);
  EXPECT_EQ(breaker.phase(later), Phase::kClosed);
}

TEST(Breaker, OnlyOneShardGetsTheTrial) {
  for (int round = 0; round < 50; ++round) {
    Breaker breaker;
    FailUntilOpen(breaker, kBegun);
    std::atomic<int> trials{0};
    std::vector<std::thread> shards;
    for (int i = 0; i < 4; ++i) {
      shards.emplace_back([&] {
        for (int n = 0; n < 100; ++n) {
          breaker.Report(Outcome::kBad, Admission::kAdmitted, kBegun + 5s);
          breaker.Report(Outcome::kGood, Admission::kAdmitted, kBegun + 5s);
          if (breaker.Admit(kBegun + 5s) == Admission::kTrial) ++trials;
        }
      });
    }
    for (std::thread& shard : shards) shard.join();
    EXPECT_EQ(trials, 1);
  }
}

TEST(Breaker, OneCallersBadRequestsDoNotOpenIt) {
  Breaker breaker({.consecutive_failures = 3, .several_callers = true});
  const auto fail = [&](CallerId caller) {
    breaker.Report(Outcome::kBad, breaker.Admit(kBegun), kBegun, caller);
  };
  for (int i = 0; i < 100; ++i) fail(7);
  EXPECT_EQ(breaker.phase(kBegun), Breaker::Phase::kClosed);
  EXPECT_TRUE(breaker.Suspected(kBegun));
  fail(8);
  EXPECT_EQ(breaker.phase(kBegun), Breaker::Phase::kOpen) << "two callers have seen it fail";
}

TEST(Breaker, AProbeThatFailsTooOpensItForOneCallersFailures) {
  Breaker breaker({.consecutive_failures = 3, .several_callers = true});
  breaker.OnProbeFailed(kBegun);
  EXPECT_EQ(breaker.phase(kBegun), Breaker::Phase::kClosed) << "nothing else speaks against it";
  for (int i = 0; i < 3; ++i) breaker.Report(Outcome::kBad, breaker.Admit(kBegun), kBegun, 7);
  breaker.OnProbeFailed(kBegun);
  EXPECT_EQ(breaker.phase(kBegun), Breaker::Phase::kOpen);
}

TEST(Breaker, FailuresThatNoCallerCausesCountAtOnce) {
  Breaker breaker({.consecutive_failures = 3, .several_callers = true});
  for (int i = 0; i < 2; ++i) breaker.Report(Outcome::kBad, breaker.Admit(kBegun), kBegun, 7);
  breaker.Report(Outcome::kBad, breaker.Admit(kBegun), kBegun);
  EXPECT_EQ(breaker.phase(kBegun), Breaker::Phase::kOpen);
}

TEST(Breaker, AGoodAnswerForgetsTheCallersOfFailures) {
  Breaker breaker({.consecutive_failures = 3, .several_callers = true});
  breaker.Report(Outcome::kBad, breaker.Admit(kBegun), kBegun, 7);
  breaker.Report(Outcome::kGood, breaker.Admit(kBegun), kBegun, 7);
  for (int i = 0; i < 5; ++i) breaker.Report(Outcome::kBad, breaker.Admit(kBegun), kBegun, 8);
  EXPECT_EQ(breaker.phase(kBegun), Breaker::Phase::kClosed) << "the failures in a row are one caller's";
}

}  // namespace
}  // namespace router
