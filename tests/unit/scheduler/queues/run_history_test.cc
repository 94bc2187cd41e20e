#include "scheduler/queues/run_history.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "scheduler/rng.h"
#include "tests/unit/scheduler/clusters.h"

namespace scheduler {
namespace {

using std::chrono::hours;
using std::chrono::minutes;

constexpr conf::Duration kUnknownRun = hours(24);

Job JobOfUser(const std::string& user, const std::string& application = "", uint16_t devices = 1) {
  Job job{.id = "j", .queue = "q", .user = user, .application = application};
  job.roles = {{.name = "w", .ask = testing::Devices(devices)}};
  return job;
}

double ExpectedHoursOf(const RunHistory& history, const Job& job) {
  RunHistory::Chain chain;
  return history.ExpectedSeconds(*RunHistory::ClassOf(job), chain) / 3600;
}

void AddRuns(RunHistory& history, const Job& job, conf::Duration run, int times = 1) {
  for (int i = 0; i < times; ++i) history.Add(*RunHistory::ClassOf(job), run);
}

TEST(RunHistory, ExpectsWhatTheJobStatesUntilJobsHaveEnded) {
  const RunHistory history(kUnknownRun);
  EXPECT_DOUBLE_EQ(ExpectedHoursOf(history, JobOfUser("ada")), 24);
  Job stated = JobOfUser("ada");
  stated.estimate = hours(2);
  EXPECT_GT(ExpectedHoursOf(history, stated), 1);
  EXPECT_LT(ExpectedHoursOf(history, stated), 4);
  EXPECT_EQ(history.Estimate(*RunHistory::ClassOf(stated)).runs, 0);
}

TEST(RunHistory, LearnsByUserAndApplicationAndFallsBackToWiderClasses) {
  RunHistory history(kUnknownRun);
  AddRuns(history, JobOfUser("ada", "train"), hours(10), 50);
  AddRuns(history, JobOfUser("ada", "evaluate"), minutes(6), 50);
  EXPECT_NEAR(ExpectedHoursOf(history, JobOfUser("ada", "train")), 10, 0.5);
  EXPECT_NEAR(ExpectedHoursOf(history, JobOfUser("ada", "evaluate")), 0.1, 0.5);
  EXPECT_NEAR(ExpectedHoursOf(history, JobOfUser("ada", "another")), 5, 1) << "as her jobs in general";
  EXPECT_NEAR(ExpectedHoursOf(history, JobOfUser("bob")), 5, 1) << "as all jobs of that size";
  const RunEstimate estimate = history.Estimate(*RunHistory::ClassOf(JobOfUser("ada", "train")));
  EXPECT_EQ(estimate.of.application, "train");
  EXPECT_NEAR(estimate.runs, 50, 3);
}

TEST(RunHistory, AFewRunsSayLessThanMany) {
  RunHistory history(kUnknownRun);
  AddRuns(history, JobOfUser("bob"), hours(1), 100);
  AddRuns(history, JobOfUser("ada", "train"), hours(100));
  const double once = ExpectedHoursOf(history, JobOfUser("ada", "train"));
  EXPECT_GT(once, 5);
  EXPECT_LT(once, 90);
  AddRuns(history, JobOfUser("ada", "train"), hours(100), 30);
  EXPECT_GT(ExpectedHoursOf(history, JobOfUser("ada", "train")), 95);
}

TEST(RunHistory, TheSpreadIsThatOfTheRuns) {
  RunHistory steady(kUnknownRun);
  RunHistory varied(kUnknownRun);
  const Job job = JobOfUser("ada", "train");
  for (int i = 0; i < 200; ++i) {
    AddRuns(steady, job, hours(3));
    AddRuns(varied, job, hours(i % 2 == 0 ? 1 : 5));
  }
  const RunClass of = *RunHistory::ClassOf(job);
  EXPECT_LT(steady.Estimate(of).spread, minutes(30));
  EXPECT_NEAR(conf::ToSeconds(varied.Estimate(of).spread) / 3600, 2, 0.2);
  EXPECT_NEAR(conf::ToSeconds(varied.Estimate(of).expected) / 3600, 3, 0.2);
}

TEST(RunHistory, StatedTimesAreCorrectedByWhatTheUsersJobsTook) {
  RunHistory history(kUnknownRun);
  Job job = JobOfUser("ada");
  job.estimate = hours(10);
  AddRuns(history, job, hours(1), 50);
  EXPECT_NEAR(ExpectedHoursOf(history, job), 1, 0.2);
  job.estimate = hours(100);
  EXPECT_GT(ExpectedHoursOf(history, job), 50) << "another class of times";
}

TEST(RunHistory, FollowsAChangeOfHabits) {
  RunHistory history(kUnknownRun);
  const Job job = JobOfUser("ada", "train");
  AddRuns(history, job, hours(1), 2000);
  AddRuns(history, job, hours(8), 1000);
  EXPECT_GT(ExpectedHoursOf(history, job), 6);
}

TEST(RunHistory, NeverExpectsMoreThanAWeek) {
  RunHistory history(hours(24 * 365));
  const Job job = JobOfUser("ada");
  EXPECT_LE(ExpectedHoursOf(history, job), 24 * 7);
  AddRuns(history, job, hours(24 * 365), 10);
  EXPECT_LE(ExpectedHoursOf(history, job), 24 * 7);
}

TEST(RunHistory, IgnoresReplicas) {
  Job job = JobOfUser("ada");
  job.work = WorkClass::kInference;
  EXPECT_FALSE(RunHistory::ClassOf(job));
}

TEST(RunHistory, IsBoundedAndForgetsTheRarestFirst) {
  RunHistory history(kUnknownRun);
  const Job often = JobOfUser("ada", "train");
  AddRuns(history, often, hours(10), 100);
  for (int i = 0; i < 6'000; ++i) {
    AddRuns(history, JobOfUser(fmt::format("user-{}", i), "once"), hours(1));
    if (i % 10 == 0) AddRuns(history, often, hours(10));
    if (i % 50 == 0) ASSERT_LE(history.state().size(), RunHistory::kMostClasses);
  }
  EXPECT_LE(history.state().size(), RunHistory::kMostClasses);
  EXPECT_NEAR(ExpectedHoursOf(history, often), 10, 1);
}

TEST(RunHistory, ContinuesFromItsStateAsIfItHadNeverStopped) {
  Rng rng(7);
  RunHistory history(kUnknownRun);
  const auto random = [&] {
    return JobOfUser(fmt::format("u{}", rng.Uniform(900)), fmt::format("a{}", rng.Uniform(5)),
                     static_cast<uint16_t>(1 + rng.Uniform(8)));
  };
  for (int i = 0; i < 3'000; ++i) AddRuns(history, random(), minutes(rng.Uniform(5'000)));
  const LearnedRuns state = history.state();
  RunHistory copy(state, kUnknownRun);
  EXPECT_EQ(copy.state(), state);
  RunHistory::Chain kept;
  for (int i = 0; i < 3'000; ++i) {
    const Job job = random();
    const conf::Duration run = minutes(rng.Uniform(5'000));
    AddRuns(history, job, run);
    AddRuns(copy, job, run);
    const RunClass of = *RunHistory::ClassOf(JobOfUser("u1", "a1"));
    RunHistory::Chain fresh;
    ASSERT_EQ(history.ExpectedSeconds(of, kept), copy.ExpectedSeconds(of, fresh)) << "after " << i;
  }
  EXPECT_EQ(copy.state(), history.state());
}

}  // namespace
}  // namespace scheduler
