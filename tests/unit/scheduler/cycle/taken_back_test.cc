// A plan does not start what it stops: where a job makes room for another one, a start of the same plan is taken back.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "scheduler/planner.h"
#include "tests/unit/scheduler/clusters.h"
#include "tests/unit/scheduler/planner_world.h"

namespace scheduler {
namespace {

using namespace testing;
using std::chrono::hours;
using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

Policy OldestFirst() {
  Policy policy;
  policy.order = {{"age", 1}};
  return policy;
}

// The older job goes first, and makes room for the younger one, which has a higher priority.
struct OldAndHigh : PlannerWorld {
  explicit OldAndHigh(int nodes = 1, std::vector<Queue> queues = {})
      : PlannerWorld(EightWay(nodes), OldestFirst(), std::move(queues)) {}

  void SubmitOld(Job job) {
    job.submitted = now - hours(1);
    Submit(std::move(job));
  }
  void SubmitHigh(const std::string& id, uint16_t devices) {
    Job job = Make(id, Devices(devices));
    job.priority = 10;
    Submit(std::move(job));
  }
  void ExpectNothingIsHeldBy(const std::string& id) const {
    EXPECT_THAT(NodesOf(id), IsEmpty());
    EXPECT_EQ(planner.jobs()[Find(id)].phase, Phase::kPending);
    EXPECT_EQ(planner.state().Check(), "");
    EXPECT_EQ(planner.queues().Check(), "");
  }
};

TEST(TakenBack, AStartOfTheSamePlanIsNoActionAndItsPlacesAreFreeAtOnce) {
  OldAndHigh w;
  w.SubmitOld(w.Make("old", Devices(8)));
  w.SubmitHigh("high", 8);
  EXPECT_THAT(w.Run(), ElementsAre("start high"));
  w.ExpectNothingIsHeldBy("old");
  EXPECT_EQ(w.WhyWaits("old"), "preempted");
  EXPECT_EQ(w.WhyWaits("high"), "");
  EXPECT_EQ(w.planner.queues().allocated(w.planner.queues().Find("default"), kAnyKind), 8'000);
  EXPECT_EQ(w.planner.pending(), 1u);
}

TEST(TakenBack, ACycleIsDueAtOnceForThoseThatFindRoomNow) {
  OldAndHigh w;
  w.SubmitOld(w.Make("old", Devices(8)));
  w.SubmitOld(w.Make("small", Devices(4)));
  w.SubmitHigh("high", 4);
  EXPECT_THAT(w.Run(), ElementsAre("start high"));
  ASSERT_TRUE(w.planner.NextDue());
  EXPECT_LE(*w.planner.NextDue(), w.now);
  EXPECT_EQ(w.planner.NextReservedStart(), w.planner.NextDue());
  w.Run();
  EXPECT_TRUE(!w.planner.NextDue() || *w.planner.NextDue() > w.now);
}

TEST(TakenBack, SurplusMembersOfAnElasticJobLeaveItsStart) {
  OldAndHigh w;
  Job old = w.Make("old", Devices(1), 8);
  old.roles[0].min_count = 2;
  w.SubmitOld(old);
  w.SubmitHigh("high", 3);
  EXPECT_THAT(w.Run(), ElementsAre("start old", "start high"));
  EXPECT_EQ(w.plan.actions[0].members.size(), 5u);
  EXPECT_EQ(w.NodesOf("old").size(), 5u);
  EXPECT_EQ(w.planner.state().Check(), "");
  EXPECT_EQ(w.planner.queues().Check(), "");
}

TEST(TakenBack, OthersThatRanBeforeStopWithTheirGrace) {
  OldAndHigh w(2);
  w.SubmitOld(w.Make("runs", Devices(8)));
  EXPECT_THAT(w.Run(), ElementsAre("start runs"));
  w.now += seconds(10);
  w.SubmitOld(w.Make("old", Devices(8)));
  Job gang = w.Make("gang", Devices(8), 2);
  gang.priority = 10;
  w.Submit(gang);
  EXPECT_THAT(w.Run(), ElementsAre("preempt runs"));
  w.ExpectNothingIsHeldBy("old");
  EXPECT_EQ(w.WhyWaits("gang"), "reserved");
  w.planner.Stopped(w.Find("runs"), w.now);
  EXPECT_THAT(w.Run(), ElementsAre("start gang"));
}

TEST(TakenBack, AReclaimTakesTheStartOfAQueueThatHasMoreThanItDeserves) {
  OldAndHigh w(1,
               {{.name = "rich", .parent = ""}, {.name = "poor", .parent = "", .deserved = {{"*", 8'000}}}});
  Job old = w.Make("old", Devices(8));
  old.queue = "rich";
  w.SubmitOld(old);
  Job due = w.Make("due", Devices(8));
  due.queue = "poor";
  w.Submit(due);
  EXPECT_THAT(w.Run(), ElementsAre("start due"));
  w.ExpectNothingIsHeldBy("old");
  EXPECT_EQ(w.WhyWaits("old"), "reclaimed");
  EXPECT_EQ(w.planner.queues().allocated(w.planner.queues().Find("rich"), kAnyKind), 0);
}

TEST(TakenBack, CountableResourcesAreFreeAgain) {
  Cluster cluster = EightWay(1);
  cluster.resources = {{"licence", 1}};
  PlannerWorld w(cluster, OldestFirst());
  Job old = w.Make("old", Devices(8));
  old.submitted = w.now - hours(1);
  old.resources = {{"licence", 1}};
  w.Submit(old);
  Job high = w.Make("high", Devices(8));
  high.priority = 10;
  w.Submit(high);
  EXPECT_THAT(w.Run(), ElementsAre("start high"));
  EXPECT_EQ(w.planner.resources().free("licence"), 1u);
}

}  // namespace
}  // namespace scheduler
