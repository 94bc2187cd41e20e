// The order by expected run times, as the planner learns them.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "scheduler/io/explanation_text.h"
#include "scheduler/io/snapshot_json.h"
#include "tests/unit/scheduler/clusters.h"
#include "tests/unit/scheduler/planner_world.h"

namespace scheduler {
namespace {

using std::chrono::hours;
using std::chrono::minutes;
using ::testing::Contains;
using testing::Devices;
using testing::EightWay;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::PlannerWorld;

Policy ByExpected(double overdue = 0) {
  Policy policy;
  policy.order = {{"expected", 16}, {"overdue", overdue}, {"age", 1}};
  return policy;
}

struct LearningWorld : PlannerWorld {
  explicit LearningWorld(Policy policy = ByExpected(), int nodes = 1)
      : PlannerWorld(EightWay(nodes), std::move(policy)) {}

  Job Of(const std::string& id, const std::string& application, uint16_t devices = 8) {
    Job job = Make(id, Devices(devices));
    job.user = "ada";
    job.application = application;
    job.estimate.reset();
    return job;
  }
  // `application` has run this often for so long.
  void Learn(const std::string& application, conf::Duration run, int times = 10) {
    for (int i = 0; i < times; ++i) {
      const JobIndex job = Submit(Of(fmt::format("{}-{}", application, learned++), application));
      Run();
      now += run;
      planner.Ended(job, now);
    }
  }
  int learned = 0;
};

TEST(PlannerExpected, TheApplicationThatRanShorterGoesFirst) {
  LearningWorld world;
  world.Learn("long", hours(20));
  world.Learn("short", minutes(10));
  world.Submit(world.Of("busy", "other"));
  world.Run();
  world.Submit(world.Of("a", "long"));
  world.Submit(world.Of("b", "short"));
  world.Run();
  world.now += hours(1);
  world.planner.Ended(world.Find("busy"), world.now);
  EXPECT_THAT(world.Run(), ElementsAre("start b"));
}

TEST(PlannerExpected, WhatIsLearnedWhileAJobWaitsCountsForIt) {
  LearningWorld world(ByExpected(), 2);
  const JobIndex first = world.Submit(world.Of("first", "short"));
  const JobIndex second = world.Submit(world.Of("second", "long"));
  world.Run();
  world.Submit(world.Of("a", "long"));
  world.Submit(world.Of("b", "short"));
  world.now += minutes(1);
  world.planner.Ended(first, world.now);
  EXPECT_THAT(world.Run(), ElementsAre("start b")) << "one run of a minute is known";
  world.planner.Ended(second, world.now);
}

TEST(PlannerExpected, WithdrawnJobsAndStopsTeachNothing) {
  LearningWorld world;
  const JobIndex job = world.Submit(world.Of("a", "x"));
  world.Run();
  world.now += hours(1);
  world.planner.Withdraw(job, world.now);
  EXPECT_TRUE(world.planner.TakeSnapshot(world.now).runs.empty());
  const JobIndex waits = world.Submit(world.Of("b", "x"));
  world.planner.Ended(waits, world.now);  // it never ran
  EXPECT_TRUE(world.planner.TakeSnapshot(world.now).runs.empty());
}

TEST(PlannerExpected, OtherOrdersLearnNothing) {
  LearningWorld world(Policy{});
  world.Learn("x", hours(1));
  EXPECT_TRUE(world.planner.TakeSnapshot(world.now).runs.empty());
}

// 30 days of short jobs, more than the cluster can run, beside one long job.
conf::Duration LongestWaitOfLong(Policy policy) {
  LearningWorld world(std::move(policy));
  world.Learn("long", hours(150));
  world.Learn("short", hours(1), 50);
  const conf::TimePoint since = world.now;
  JobIndex running = kNone;
  for (int i = 0; i < 24 * 60; ++i) {
    if (i == 1) world.Submit(world.Of("the-long-one", "long"));
    world.Submit(world.Of(fmt::format("s{}-a", i), "short"));
    if (running != kNone) world.planner.Ended(running, world.now);
    running = kNone;
    world.Run();
    for (const Action& action : world.plan.actions) {
      if (action.job == "the-long-one") return world.now - since;
      running = world.Find(action.job);
    }
    world.now += hours(1);
  }
  return world.now - since;
}

TEST(PlannerExpected, ALongJobStartsWhenItIsOverdueHoweverManyShortOnesArrive) {
  EXPECT_LE(LongestWaitOfLong(ByExpected(1'000)), hours(14 * 24 + 8));
  Policy weak;
  weak.order = {{"expected", 1}, {"age", 1}};
  EXPECT_LE(LongestWaitOfLong(weak), hours(168 + 24)) << "by age alone: a week for each unit of the weights";
}

TEST(PlannerExpected, NoJobIsPassedInLineByMoreThanTheBoundOfTheWeights) {
  Rng rng(3);
  for (int round = 0; round < 200; ++round) {
    const double weight = 1 + static_cast<double>(rng.Uniform(20));
    const Order order(std::vector<OrderTerm>{{"expected", weight}, {"age", 1}});
    const double one = static_cast<double>(rng.Uniform(168'001)) / 1'000;
    const double other = static_cast<double>(rng.Uniform(168'001)) / 1'000;
    EXPECT_LE(order.OfRun(one) - order.OfRun(other), weight * 168);
  }
}

TEST(PlannerExpected, FairShareDecidesBetweenQueuesWhereItWeighsMore) {
  Policy policy;
  policy.order = {{"fair-share", 1'000'000}, {"expected", 16}, {"age", 1}};
  PlannerWorld world(EightWay(1), policy,
                     {{.name = "a", .parent = "", .deserved = {{"*", 4'000}}},
                      {.name = "b", .parent = "", .deserved = {{"*", 4'000}}}});
  const auto submit = [&](const std::string& id, const std::string& queue, conf::Duration estimate) {
    Job job = world.Make(id, Devices(1));
    job.queue = queue;
    job.estimate = estimate;
    return world.Submit(job);
  };
  std::vector<JobIndex> running;
  for (int i = 0; i < 8; ++i) running.push_back(submit(fmt::format("a{}", i), "a", minutes(5)));
  world.Run();
  submit("short", "a", minutes(1));
  submit("long", "b", hours(100));
  world.planner.Ended(running[0], world.now);
  EXPECT_THAT(world.Run(), Contains("start long"));
}

TEST(PlannerExpected, ASnapshotCarriesWhatWasLearnedThroughAFile) {
  LearningWorld world;
  world.Learn("long", hours(20));
  world.Learn("short", minutes(10));
  const Snapshot taken = world.planner.TakeSnapshot(world.now);
  ASSERT_FALSE(taken.runs.empty());
  const auto read = io::ReadSnapshot(io::WriteSnapshot(taken), "snapshot");
  ASSERT_TRUE(read.value) << (read.problems.empty() ? "" : read.problems.front().message);
  EXPECT_EQ(read.value->runs, taken.runs);
  EXPECT_EQ(Planner(*read.value, ByExpected()).TakeSnapshot(world.now).runs, taken.runs);
}

TEST(PlannerExpected, ASnapshotWithImpossibleRunsIsRefused) {
  LearningWorld world;
  world.Learn("long", hours(20));
  const Snapshot good = world.planner.TakeSnapshot(world.now);
  const auto refusal = [&](const auto& spoil) {
    Snapshot bad = good;
    spoil(bad.runs);
    const auto read = io::ReadSnapshot(io::WriteSnapshot(bad), "snapshot");
    return read.value || read.problems.empty() ? "" : read.problems.front().message;
  };
  EXPECT_THAT(refusal([](LearnedRuns& runs) { runs[0].sums.runs = -1; }), HasSubstr("-1 runs"));
  EXPECT_THAT(refusal([](LearnedRuns& runs) { runs[0].sums.seconds = 1e12; }), HasSubstr("seconds"));
  EXPECT_THAT(refusal([](LearnedRuns& runs) { std::swap(runs[0], runs[1]); }), HasSubstr("order of class"));
}

TEST(PlannerExpected, AJobIsToldItsPlaceInLineAndWhy) {
  LearningWorld world;
  world.Learn("long", hours(20));
  world.Learn("short", minutes(10));
  world.Submit(world.Of("busy", "other"));
  world.Run();
  world.Submit(world.Of("a", "long"));
  world.Submit(world.Of("b", "short"));
  world.now += hours(1);
  world.Run();
  const Explanation e = world.planner.Explain(world.Find("a"), world.now);
  ASSERT_TRUE(e.order && e.order->run);
  EXPECT_EQ(e.order->ahead, 1u);
  EXPECT_EQ(e.order->waiting, 2u);
  EXPECT_EQ(e.order->run->of.application, "long");
  const std::vector<std::string> sentences = io::InWords(e);
  EXPECT_THAT(sentences, Contains(HasSubstr("1 job of 2 that wait goes before it")));
  EXPECT_THAT(sentences, Contains(HasSubstr("learned from application long by ada")));
  const nlohmann::json json = nlohmann::json::parse(io::WriteExplanation(e));
  EXPECT_EQ(json["order"]["terms"][0]["term"], "expected");
  EXPECT_EQ(json["order"]["run"]["application"], "long");
}

}  // namespace
}  // namespace scheduler
