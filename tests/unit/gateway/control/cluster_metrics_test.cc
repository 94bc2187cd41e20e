// The cluster over time: occupation, figures of the moment, and how long jobs waited.
#include "gateway/control/planning/cluster_metrics.h"

#include <gtest/gtest.h>

namespace gateway::control {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

constexpr conf::TimePoint kClusterBegin{std::chrono::hours(1000)};

// Four devices on one node.
scheduler::Cluster FourDevices() {
  scheduler::Cluster cluster;
  cluster.kinds = {{.name = "h100", .memory_mib = 80'000}};
  cluster.types = {{.cpu_milli = 64'000, .memory_mib = 512'000, .kind = 0, .devices = 4}};
  cluster.nodes = {{.name = "local"}};
  cluster.fabric = scheduler::FlatFabric();
  return cluster;
}

scheduler::Job JobAsking(uint16_t devices) {
  scheduler::Job job;
  job.id = "j-1";
  job.queue = "default";
  job.submitted = kClusterBegin;
  job.roles = {{.name = "worker", .ask = {.devices = {{.count = devices}}}}};
  return job;
}

TEST(ClusterMetrics, OccupationIsTheHeldPartOfTheDeviceTime) {
  const scheduler::Cluster cluster = FourDevices();
  scheduler::Planner planner(cluster, {}, {});
  ClusterMetrics metrics;
  conf::TimePoint now = kClusterBegin;
  const auto pass = [&](int count) {
    for (int i = 0; i < count; ++i) metrics.Tick(planner, now += seconds(1));
  };
  metrics.Tick(planner, now);
  pass(30);
  planner.Submit(JobAsking(2), now);
  scheduler::Rng rng{1};
  planner.Run(now, rng);
  pass(90);
  const ClusterStatus status = metrics.status();
  EXPECT_DOUBLE_EQ(status.capacity_seconds, 480);
  EXPECT_DOUBLE_EQ(status.held_seconds, 180);
  EXPECT_DOUBLE_EQ(status.sor, 180.0 / 480);
  EXPECT_DOUBLE_EQ(status.now.gar, 0.5);
  pass(3600);  // the time before is forgotten, but counters stay
  EXPECT_NEAR(metrics.status().sor, 0.5, 1e-9);
  EXPECT_DOUBLE_EQ(metrics.status().held_seconds, 180 + 7200);
}

TEST(ClusterMetrics, FiguresOfTheMomentAreMadeOnceASecond) {
  const scheduler::Cluster cluster = FourDevices();
  scheduler::Planner planner(cluster, {}, {});
  ClusterMetrics metrics;
  metrics.Tick(planner, kClusterBegin);
  planner.Submit(JobAsking(2), kClusterBegin);
  metrics.Tick(planner, kClusterBegin + milliseconds(900));
  EXPECT_EQ(metrics.status().now.waiting, 0);
  metrics.Tick(planner, kClusterBegin + milliseconds(1000));
  EXPECT_EQ(metrics.status().now.waiting, 2 * scheduler::kWholeDevice);
}

TEST(ClusterMetrics, TimeThatNobodySawCountsForNothing) {
  const scheduler::Cluster cluster = FourDevices();
  scheduler::Planner planner(cluster, {}, {});
  ClusterMetrics metrics;
  metrics.Tick(planner, kClusterBegin);
  metrics.Tick(planner, kClusterBegin + minutes(30));
  metrics.Tick(planner, kClusterBegin + minutes(10));
  EXPECT_EQ(metrics.status().capacity_seconds, 0);
  metrics.Tick(planner, kClusterBegin + minutes(10) + seconds(1));
  EXPECT_DOUBLE_EQ(metrics.status().capacity_seconds, 4);
}

TEST(ClusterMetrics, WaitsAreCountedByQueueAndSize) {
  ClusterMetrics metrics;
  metrics.OnFirstStart("training", 4 * scheduler::kWholeDevice, seconds(1));
  metrics.OnFirstStart("training", 4 * scheduler::kWholeDevice, seconds(3));
  metrics.OnFirstStart("training", 16 * scheduler::kWholeDevice, std::chrono::hours(200));
  const ClusterStatus status = metrics.status();
  const WaitsOfJobs& small = status.waits.at({"training", 0});
  EXPECT_EQ(small.counts[0], 1u);
  EXPECT_EQ(small.counts[1], 1u);
  EXPECT_DOUBLE_EQ(small.sum, 4);
  EXPECT_EQ(status.waits.at({"training", 1}).counts.back(), 1u);
  EXPECT_EQ(status.recent.at("training").jobs, 3u);
  EXPECT_DOUBLE_EQ(status.recent.at("training").p50, 3);
}

}  // namespace
}  // namespace gateway::control
