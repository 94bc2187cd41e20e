#include "scheduler/sim/forecast.h"

#include <gtest/gtest.h>

#include "scheduler/io/what_if.h"
#include "scheduler/planner.h"
#include "tests/unit/scheduler/clusters.h"

namespace scheduler::sim {
namespace {

using std::chrono::hours;
using std::chrono::minutes;
using testing::Devices;
using testing::EightWay;

constexpr auto kAlways = [](size_t, size_t) { return true; };
const conf::TimePoint kStart = conf::TimePoint(hours(500'000));

Job JobOf(std::string id, conf::Duration estimate, uint16_t devices = 8) {
  Job job;
  job.id = std::move(id);
  job.queue = "main";
  job.tenant = "acme";
  job.estimate = estimate;
  job.submitted = kStart;
  job.roles = {{.name = "worker", .ask = Devices(devices)}};
  return job;
}

// One node: `first` runs, `second` and `third` wait.
Snapshot Busy(const Cluster& cluster) {
  Planner planner(cluster, {{.name = "main", .parent = ""}}, {});
  planner.Submit(JobOf("first", hours(2)), kStart);
  Rng rng = CycleRng(1, 0);
  planner.Run(kStart, rng);
  planner.Submit(JobOf("second", hours(3)), kStart);
  planner.Submit(JobOf("third", hours(1)), kStart);
  return planner.TakeSnapshot(kStart);
}

const ForecastJob& Find(const Forecast& forecast, std::string_view id) {
  for (const ForecastJob& job : forecast.jobs) {
    if (job.id == id) return job;
  }
  static const ForecastJob none;
  return none;
}

TEST(Forecast, AJobStartsWhenTheWorkBeforeItHasEnded) {
  const Cluster cluster = EightWay(1);
  const Forecast forecast = ForecastStarts(Busy(cluster), {}, {}, kAlways);
  ASSERT_EQ(forecast.jobs.size(), 2u) << "the one that runs does not wait";
  EXPECT_TRUE(forecast.whole);
  const ForecastJob& second = Find(forecast, "second");
  const ForecastJob& third = Find(forecast, "third");
  ASSERT_TRUE(second.starts && third.starts);
  EXPECT_EQ(std::min(*second.starts, *third.starts), kStart + hours(2));
  const conf::TimePoint last = std::max(*second.starts, *third.starts);
  EXPECT_TRUE(last == kStart + hours(3) || last == kStart + hours(5));
  EXPECT_EQ(*second.ends, *second.starts + hours(3));
  EXPECT_EQ(second.tenant, "acme");
}

TEST(Forecast, OneMoreNodeLetsAJobStartAtOnce) {
  const Cluster cluster = EightWay(1);
  Snapshot snapshot = Busy(cluster);
  io::AddNodes(snapshot.cluster, 0, 1);
  if (!snapshot.health.empty()) snapshot.health.resize(snapshot.cluster.nodes.size());
  const Forecast forecast = ForecastStarts(snapshot, {}, {}, kAlways);
  const ForecastJob& second = Find(forecast, "second");
  const ForecastJob& third = Find(forecast, "third");
  ASSERT_TRUE(second.starts && third.starts);
  EXPECT_EQ(std::min(*second.starts, *third.starts), kStart);
}

TEST(Forecast, AJobThatNeverFitsDoesNotStart) {
  const Cluster cluster = EightWay(1);
  Snapshot snapshot = Busy(cluster);
  JobState large{.job = JobOf("large", hours(1))};
  large.job.roles.front().count = 2;
  large.job.roles.front().min_count = 2;
  snapshot.jobs.push_back(large);
  const Forecast forecast = ForecastStarts(snapshot, {}, {.horizon = hours(48)}, kAlways);
  EXPECT_FALSE(Find(forecast, "large").starts);
  EXPECT_TRUE(Find(forecast, "second").starts);
  EXPECT_EQ(forecast.until, kStart + hours(48));
}

TEST(Forecast, EndsWhenItIsToldTo) {
  const Cluster cluster = EightWay(1);
  const Forecast forecast = ForecastStarts(Busy(cluster), {}, {}, [](size_t, size_t) { return false; });
  EXPECT_FALSE(forecast.whole);
  EXPECT_EQ(forecast.cycles, 1u);
}

TEST(Forecast, IsTheSameForTheSameSeed) {
  const Cluster cluster = EightWay(1);
  const Snapshot snapshot = Busy(cluster);
  const Forecast one = ForecastStarts(snapshot, {}, {}, kAlways);
  const Forecast other = ForecastStarts(snapshot, {}, {}, kAlways);
  ASSERT_EQ(one.jobs.size(), other.jobs.size());
  for (size_t i = 0; i < one.jobs.size(); ++i) EXPECT_EQ(one.jobs[i].starts, other.jobs[i].starts);
  EXPECT_EQ(one.cycles, other.cycles);
}

TEST(WhatIfQuota, NamesAQueueAndDevices) {
  std::vector<Queue> queues = {{.name = "nlp", .parent = ""}};
  EXPECT_EQ(io::SetQuota("nlp=h100:4", queues), "");
  EXPECT_EQ(queues[0].deserved.at("h100"), 4000);
  EXPECT_EQ(io::SetQuota("nlp=64", queues), "");
  EXPECT_EQ(queues[0].deserved, (DeviceQuota{{"*", 64'000}}));
  EXPECT_NE(io::SetQuota("nlp", queues), "");
  EXPECT_NE(io::SetQuota("nlq=1", queues).find("nlp"), std::string::npos);
}

}  // namespace
}  // namespace scheduler::sim
