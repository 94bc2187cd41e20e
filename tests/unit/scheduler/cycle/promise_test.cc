// What conservative backfill has promised.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/unit/scheduler/clusters.h"
#include "tests/unit/scheduler/planner_world.h"

namespace scheduler {
namespace {

using namespace testing;

constexpr conf::Duration kHour = std::chrono::hours(1);

Policy Conservative() {
  Policy policy;
  policy.backfill.kind = Backfill::kConservative;
  policy.preemption.by_priority = false;
  policy.preemption.reclaim = false;
  return policy;
}

// Two leaves of two nodes, full: those of the first are free in an hour, those of the second later.
struct World : PlannerWorld {
  World() : PlannerWorld(EightWay(4, 2), Conservative()) {
    for (const auto& [id, hours] :
         {std::pair("a", 1), std::pair("b", 1), std::pair("c", 5), std::pair("d", 5)})
      Submit(Lasts(Make(id, Devices(8)), hours * kHour));
    Run();
    Submit(Lasts(Make("waits", Devices(8)), 3 * kHour));
    Run();
  }

  static Job Lasts(Job job, conf::Duration length) {
    job.estimate = length;
    return job;
  }
  const Reserved& Promise() const { return plan.reserved.at(0); }
};

TEST(Promise, KeepsItsNodesWhereTheJobCouldStartNoEarlierElsewhere) {
  World world;
  const std::vector<NodeId> nodes = world.Promise().nodes;
  const conf::TimePoint start = world.Promise().start;
  // In the other leaf a node will be free at the same time, which would leave whole leaves free.
  const std::string ends = world.NodesOf("c") == nodes ? "d" : "c";
  world.planner.Ended(world.Find(ends), world.now);
  Job first = World::Lasts(world.Make("first", Devices(8)), kHour);
  first.priority = 1;
  world.Submit(first);
  EXPECT_EQ(world.Run(), std::vector<std::string>{"start first"});
  EXPECT_EQ(world.Promise().start, start);
  EXPECT_EQ(world.Promise().nodes, nodes);
}

TEST(Promise, IsGivenUpForAnEarlierStart) {
  World world;
  const conf::TimePoint start = world.Promise().start;
  world.planner.Ended(world.Find("c"), world.now);
  Job first = World::Lasts(world.Make("first", Devices(8)), kHour / 2);
  first.priority = 1;
  world.Submit(first);
  EXPECT_EQ(world.Run(), std::vector<std::string>{"start first"});
  EXPECT_EQ(world.Promise().start, start - kHour / 2);
  EXPECT_EQ(world.Promise().nodes, world.NodesOf("first"));
}

TEST(Promise, IsReplacedWhenItsNodesWillNotBeFree) {
  World world;
  const std::vector<NodeId> nodes = world.Promise().nodes;
  world.planner.SetHealth(nodes.at(0), Health::kQuarantined, world.now);
  world.Run();
  EXPECT_NE(world.Promise().nodes, nodes);
}

}  // namespace
}  // namespace scheduler
