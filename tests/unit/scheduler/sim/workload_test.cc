#include "scheduler/sim/workload.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "scheduler/metrics.h"
#include "tests/unit/scheduler/clusters.h"

namespace scheduler::sim {
namespace {

using std::chrono::hours;
using std::chrono::minutes;
using ::testing::HasSubstr;

std::vector<TraceJob> Three() {
  std::vector<TraceJob> jobs;
  for (int i = 0; i < 3; ++i) {
    TraceJob& job = jobs.emplace_back();
    job.job.id = std::string(1, static_cast<char>('a' + i));
    job.job.queue = "q";
    job.job.submitted = conf::TimePoint(hours(10 + i));
    job.job.roles = GangOf(8, 8);
    job.run = hours(2);
  }
  return jobs;
}

TEST(Workload, ScaleBringsArrivalsCloserAndLeavesRunTimes) {
  std::vector<TraceJob> jobs = Three();
  ScaleArrivals(jobs, 4);
  EXPECT_EQ(jobs[0].job.submitted, conf::TimePoint(hours(10)));
  EXPECT_EQ(jobs[2].job.submitted, conf::TimePoint(hours(10) + minutes(30)));
  EXPECT_EQ(jobs[2].run, hours(2));
}

TEST(Workload, NoisyEstimatesAreLogNormalAroundTheTruth) {
  std::vector<TraceJob> jobs(20'000, Three()[0]);
  Rng rng(7);
  SetEstimates(jobs, {EstimateKind::kNoisy, 0.5}, rng);
  std::vector<double> logs;
  for (const TraceJob& job : jobs) logs.push_back(std::log(conf::ToSeconds(*job.job.estimate) / 7200));
  double squares = 0;
  for (const double x : logs) squares += x * x;
  EXPECT_NEAR(Mean(logs), 0, 0.02);
  EXPECT_NEAR(std::sqrt(squares / static_cast<double>(logs.size())), 0.5, 0.02);
}

TEST(Workload, ExactEstimatesAreTheRunTimesAndUsersKeepTheirs) {
  std::vector<TraceJob> jobs = Three();
  jobs[0].job.estimate = hours(9);
  Rng rng(1);
  SetEstimates(jobs, {EstimateKind::kUser, 0}, rng);
  EXPECT_EQ(jobs[0].job.estimate, hours(9));
  EXPECT_EQ(jobs[1].job.estimate, std::nullopt);
  SetEstimates(jobs, {EstimateKind::kExact, 0}, rng);
  EXPECT_EQ(jobs[0].job.estimate, hours(2));
}

TEST(Workload, ExactEstimatesKnowOfPeriodicCheckpoints) {
  std::vector<TraceJob> jobs = Three();
  jobs[0].job.checkpoint = {.interval = minutes(50), .save = minutes(3), .restart = minutes(9)};
  jobs[1].job.checkpoint = {.interval = hours(1), .save = minutes(3), .restart = minutes(9)};
  jobs[2].job.checkpoint = {.interval = hours(2), .save = minutes(3), .restart = minutes(9)};
  Rng rng(1);
  SetEstimates(jobs, {EstimateKind::kExact, 0}, rng);
  EXPECT_EQ(jobs[0].job.estimate, hours(2) + minutes(6));
  EXPECT_EQ(jobs[1].job.estimate, hours(2) + minutes(3));  // the second would fall on its end
  EXPECT_EQ(jobs[2].job.estimate, hours(2));
}

TEST(Workload, EstimatesAreReadByTheirWords) {
  EXPECT_EQ(ParseEstimates("exact")->kind, EstimateKind::kExact);
  EXPECT_EQ(ParseEstimates("user")->kind, EstimateKind::kUser);
  EXPECT_EQ(ParseEstimates("noisy")->sigma, 1);
  EXPECT_EQ(ParseEstimates("noisy:0.25")->sigma, 0.25);
  for (const char* wrong : {"", "noisy:", "noisy:-1", "noisy:nan", "noisy1", "noisy:1x", "perfect"}) {
    EXPECT_EQ(ParseEstimates(wrong), std::nullopt) << wrong;
  }
}

TEST(Workload, LeavesOutJobsThatTheClusterCanNeverRun) {
  const Cluster cluster = testing::EightWay(2);
  Trace trace;
  trace.jobs = Three();
  for (int i = 0; i < 3; ++i) trace.jobs[static_cast<size_t>(i)].line = i + 2;
  trace.jobs[0].job.roles = GangOf(24, 8);  // three nodes of two
  trace.jobs[1].job.after = {"a"};          // which is left out
  const std::vector<Queue> queues = {{.name = "q", .parent = {}}};
  LeaveOutImpossible(trace, "jobs.jsonl", cluster, queues);
  ASSERT_EQ(trace.jobs.size(), 1u);
  EXPECT_EQ(trace.jobs[0].job.id, "c");
  EXPECT_EQ(trace.report.left_out, 2u);
  EXPECT_EQ(trace.report.problems[0].line, 2);
  EXPECT_THAT(trace.report.problems[0].message,
              HasSubstr("impossible on this cluster: asks for 24 devices in total (3 members), the "
                        "whole cluster has 16"));
  EXPECT_THAT(trace.report.problems[1].message, HasSubstr("waits for a"));
}

TEST(Workload, LeavesOutJobsThatTheirQueueNeverAdmits) {
  const Cluster cluster = testing::EightWay(2);
  Trace trace;
  trace.jobs = Three();
  for (const size_t other : {1u, 2u}) trace.jobs[other].job.roles = GangOf(4, 4);
  const std::vector<Queue> queues = {{.name = "q", .parent = {}, .limit = {{"*", 4000}}}};
  LeaveOutImpossible(trace, "jobs.jsonl", cluster, queues);
  ASSERT_EQ(trace.report.left_out, 1u);
  EXPECT_EQ(trace.report.problems[0].message,
            "job a: can never start: the queue q may have at most 4 devices, and this job takes 8");
}

TEST(Workload, LeavesOutJobsThatAreGivenTwice) {
  const Cluster cluster = testing::EightWay(2);
  Trace trace;
  trace.jobs = Three();
  trace.jobs[2].job.id = "a";
  LeaveOutImpossible(trace, "pods.csv", cluster, std::vector<Queue>{{.name = "q", .parent = {}}});
  EXPECT_EQ(trace.jobs.size(), 2u);
  ASSERT_EQ(trace.report.left_out, 1u);
  EXPECT_EQ(trace.report.problems[0].message, "job a: is given twice");
}

TEST(Workload, LeavesOutJobsOfQueuesThatAreNotLeaves) {
  const Cluster cluster = testing::EightWay(2);
  Trace trace;
  trace.jobs = Three();
  trace.jobs[0].job.queue = "parent";
  trace.jobs[1].job.queue = "nowhere";
  const std::vector<Queue> queues = {{.name = "parent", .parent = {}}, {.name = "q", .parent = "parent"}};
  LeaveOutImpossible(trace, "jobs.jsonl", cluster, queues);
  EXPECT_EQ(trace.jobs.size(), 1u);
  EXPECT_EQ(trace.report.left_out, 2u);
}

}  // namespace
}  // namespace scheduler::sim
