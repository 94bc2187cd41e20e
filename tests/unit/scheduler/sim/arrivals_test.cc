#include "scheduler/sim/arrivals.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace scheduler::sim {
namespace {

using std::chrono::hours;
using std::chrono::minutes;

std::vector<TraceJob> ThreeHourly() {
  std::vector<TraceJob> jobs(3);
  for (int i = 0; i < 3; ++i) {
    TraceJob& job = jobs[static_cast<size_t>(i)];
    job.job.id = std::string(1, static_cast<char>('a' + i));
    job.job.submitted = conf::TimePoint(hours(10 + i));
    job.job.roles = GangOf(8, 8);
    job.run = hours(2);
  }
  return jobs;
}

std::vector<Job> All(Arrivals arrivals) {
  std::vector<Job> jobs;
  while (arrivals.next() < arrivals.size()) jobs.push_back(arrivals.Submit());
  return jobs;
}

TEST(Arrivals, LaterRunsContinueAfterTheEndWithNewIds) {
  std::vector<TraceJob> trace = ThreeHourly();
  trace[2].job.after = {"a"};
  const std::vector<Job> jobs = All({trace, 3, {}, 1});
  ASSERT_EQ(jobs.size(), 9u);
  EXPECT_TRUE(std::ranges::is_sorted(jobs, {}, &Job::submitted));
  EXPECT_EQ(jobs[2].id, "c");
  EXPECT_EQ(jobs[2].after, std::vector<std::string>{"a"});
  EXPECT_EQ(jobs[5].id, "c#2");
  EXPECT_EQ(jobs[5].after, std::vector<std::string>{"a#2"});
  EXPECT_EQ(jobs[8].id, "c#3");
  EXPECT_EQ(jobs[3].submitted, conf::TimePoint(hours(12) + minutes(40)));  // span 2 h, mean gap 40 min
}

TEST(Arrivals, JobsAreKnownByNumberBeforeTheyAreSubmitted) {
  const std::vector<TraceJob> trace = ThreeHourly();
  Arrivals arrivals(trace, 2, {}, 1);
  EXPECT_EQ(arrivals.size(), 6u);
  EXPECT_EQ(arrivals.IdOf(4), "b#2");
  EXPECT_EQ(&arrivals.RowOf(4), &trace[1]);
  for (uint32_t job = 0; job < arrivals.size(); ++job) {
    EXPECT_EQ(arrivals.next(), job);
    const conf::TimePoint submission = arrivals.SubmissionOf(job);
    const std::string id = arrivals.IdOf(job);
    const Job submitted = arrivals.Submit();
    EXPECT_EQ(submitted.submitted, submission);
    EXPECT_EQ(submitted.id, id);
  }
}

TEST(Arrivals, NoiseDiffersFromRunToRunAndFollowsTheSeed) {
  const std::vector<TraceJob> trace = ThreeHourly();
  const Estimates noisy{EstimateKind::kNoisy, 0.5};
  const std::vector<Job> jobs = All({trace, 2, noisy, 7});
  const std::vector<Job> again = All({trace, 2, noisy, 7});
  const std::vector<Job> other = All({trace, 2, noisy, 8});
  for (size_t i = 0; i < jobs.size(); ++i) {
    EXPECT_EQ(jobs[i].estimate, again[i].estimate);
    EXPECT_NE(jobs[i].estimate, other[i].estimate);
    EXPECT_NE(jobs[i].estimate, jobs[(i + 3) % 6].estimate);
  }
}

}  // namespace
}  // namespace scheduler::sim
