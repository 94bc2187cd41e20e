// The live metrics of a cluster: the figures of a planner's state at one moment.
#include "scheduler/cluster_figures.h"

#include <gtest/gtest.h>

#include "scheduler/metrics.h"
#include "tests/unit/scheduler/clusters.h"
#include "tests/unit/scheduler/planner_world.h"

namespace scheduler {
namespace {

using std::chrono::seconds;

Job Asking(testing::PlannerWorld& world, const std::string& id, const std::string& queue,
           const std::string& tenant, int devices) {
  Job job = world.Make(id, testing::Devices(static_cast<uint16_t>(devices)));
  job.queue = queue;
  job.tenant = tenant;
  return job;
}

std::vector<Queue> TwoQueues() {
  std::vector<Queue> queues(2);
  queues[0].name = "training";
  queues[0].deserved = {{"*", 8 * kWholeDevice}};
  queues[1].name = "research";
  queues[1].deserved = {{"*", 8 * kWholeDevice}};
  return queues;
}

TEST(ClusterFigures, AnEmptyClusterIsFree) {
  testing::PlannerWorld world(testing::EightWay(2));
  const ClusterFigures figures = FiguresOf(world.planner, world.now);
  EXPECT_EQ(figures.gar, 0);
  EXPECT_EQ(figures.capacity, 16 * kWholeDevice);
  EXPECT_EQ(figures.nodes[static_cast<size_t>(Health::kHealthy)], 2u);
  ASSERT_EQ(figures.kinds.size(), 1u);
  EXPECT_EQ(figures.kinds[0].free, 16 * kWholeDevice);
  ASSERT_EQ(figures.queues.size(), 1u);
  EXPECT_EQ(figures.queues[0].used, 0);
}

TEST(ClusterFigures, TellWhoHoldsBorrowsLendsAndWaits) {
  testing::PlannerWorld world(testing::EightWay(2), {}, TwoQueues());
  for (int i = 0; i < 3; ++i) world.Submit(Asking(world, "a" + std::to_string(i), "training", "search", 4));
  world.Run();
  world.Submit(Asking(world, "b", "research", "lab", 8));
  world.Run();  // eight devices are not free on one node
  world.now += seconds(90);
  const ClusterFigures figures = FiguresOf(world.planner, world.now);
  EXPECT_DOUBLE_EQ(figures.gar, 0.75);
  EXPECT_DOUBLE_EQ(figures.gfr, 0.5);  // one node is full, the other half full
  EXPECT_EQ(figures.held, 12 * kWholeDevice);
  EXPECT_EQ(figures.waiting, 8 * kWholeDevice);
  EXPECT_EQ(figures.kinds[0].held, 12 * kWholeDevice);
  EXPECT_EQ(figures.kinds[0].free, 4 * kWholeDevice);
  EXPECT_EQ(figures.kinds[0].unused, 0);

  ASSERT_EQ(figures.queues.size(), 2u);
  const QueueFigures& training = figures.queues[0];
  EXPECT_EQ(training.name, "training");
  EXPECT_EQ(training.deserved, 8 * kWholeDevice);
  EXPECT_EQ(training.used, 12 * kWholeDevice);
  EXPECT_EQ(training.borrowed, 4 * kWholeDevice);
  EXPECT_EQ(training.lent, 0);
  EXPECT_EQ(training.running, 3u);
  const QueueFigures& research = figures.queues[1];
  EXPECT_EQ(research.asked, 8 * kWholeDevice);
  EXPECT_EQ(research.lent, 4 * kWholeDevice);
  EXPECT_EQ(research.waiting, 1u);
  EXPECT_EQ(research.oldest_wait, seconds(90));

  ASSERT_EQ(figures.tenants.size(), 2u);
  EXPECT_EQ(figures.tenants[0].tenant, "lab");
  EXPECT_EQ(figures.tenants[0].waiting, 1u);
  EXPECT_EQ(figures.tenants[1].tenant, "search");
  EXPECT_EQ(figures.tenants[1].held, 12 * kWholeDevice);
}

TEST(ClusterFigures, DevicesOfANodeThatTakesNoWorkAreNotFree) {
  testing::PlannerWorld world(testing::EightWay(2));
  world.planner.SetHealth(1, Health::kQuarantined, world.now);
  const ClusterFigures figures = FiguresOf(world.planner, world.now);
  EXPECT_EQ(figures.kinds[0].free, 8 * kWholeDevice);
  EXPECT_EQ(figures.kinds[0].unused, 8 * kWholeDevice);
  EXPECT_EQ(figures.nodes[static_cast<size_t>(Health::kQuarantined)], 1u);
}

TEST(ClusterFigures, NeighboursLendTheSamePartOfWhatTheyDoNotUse) {
  EXPECT_EQ(LentBy({{.allocated = 6000, .deserved = 4000},
                    {.allocated = 0, .deserved = 4000},
                    {.allocated = 2000, .deserved = 6000}}),
            (std::vector<int64_t>{0, 1000, 1000}));
  EXPECT_EQ(LentBy({{.allocated = 9000, .deserved = 1000}, {.allocated = 0, .deserved = 3000}}),
            (std::vector<int64_t>{0, 3000}));
  EXPECT_EQ(LentBy({}), std::vector<int64_t>());
}

TEST(ClusterFigures, OccupationIsHeldOverAllDeviceTime) {
  EXPECT_DOUBLE_EQ(OccupationRate(30, 120), 0.25);
  EXPECT_EQ(OccupationRate(0, 0), 0);
}

}  // namespace
}  // namespace scheduler
