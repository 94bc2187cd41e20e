#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "scheduler/planner.h"
#include "tests/unit/scheduler/clusters.h"
#include "tests/unit/scheduler/planner_world.h"

namespace scheduler {
namespace {

using namespace testing;
using std::chrono::minutes;
using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

// Node 0 is full of `low`, node 1 of what may not be stopped; `high` was promised node 0.
struct Promised : PlannerWorld {
  explicit Promised(Backfill backfill = Backfill::kEasy)
      : PlannerWorld(EightWay(2), PolicyWith(backfill),
                     {{.name = "default", .parent = "", .deserved = {{"*", 16'000}}}}) {
    Submit(Make("low", Devices(8)));
    Job stays = Make("stays", Devices(8));
    stays.preemptible = false;
    Submit(stays);
    Run();
    Job high = Make("high", Devices(6));
    high.priority = 10;
    Submit(high);
    EXPECT_THAT(Run(), ElementsAre("preempt low"));
    place = NodesOf("low").front();
  }

  static Policy PolicyWith(Backfill backfill) {
    Policy policy;
    policy.backfill.kind = backfill;
    policy.preemption.grace = seconds(60);
    return policy;
  }

  NodeId place = 0;
};

TEST(Nomination, IsReservedDownToTheDevice) {
  Promised w;
  ASSERT_EQ(w.plan.reserved.size(), 1u);
  EXPECT_EQ(w.plan.reserved[0].job, "high");
  EXPECT_EQ(w.plan.reserved[0].start, w.now + seconds(60));
  ASSERT_EQ(w.plan.reserved[0].members.size(), 1u);
  EXPECT_EQ(w.plan.reserved[0].members[0].holding.node, w.place);
  EXPECT_EQ(std::popcount(w.plan.reserved[0].members[0].holding.devices), 6);
}

TEST(Nomination, IsTakenAsSoonAsItIsFree) {
  Promised w;
  const std::vector<MemberAt> members = w.plan.reserved[0].members;
  w.now += seconds(10);
  EXPECT_THAT(w.Run(), IsEmpty());
  EXPECT_EQ(w.WhyWaits("high"), "reserved");
  w.planner.Stopped(w.Find("low"), w.now);
  EXPECT_THAT(w.Run(), ElementsAre("start high"));
  EXPECT_EQ(w.plan.actions[0].members, members);
}

TEST(Nomination, IsNotTakenByTheFirstJobInTheQueue) {
  Promised w;
  Job higher = w.Make("higher", Devices(2));
  higher.priority = 20;
  higher.estimate = minutes(1);
  w.Submit(higher);
  w.now += seconds(10);
  w.planner.Stopped(w.Find("low"), w.now);
  EXPECT_THAT(w.Run(), ElementsAre("start high", "start higher"));
}

TEST(Nomination, IsNotAskedForTwiceWhenTheVictimIsLate) {
  Promised w;
  for (int i = 0; i < 3; ++i) {
    w.now += minutes(5);
    EXPECT_THAT(w.Run(), IsEmpty());
    ASSERT_EQ(w.plan.reserved.size(), 1u);
    EXPECT_EQ(w.plan.reserved[0].start, w.now);
  }
  w.planner.Stopped(w.Find("low"), w.now);
  EXPECT_THAT(w.Run(), ElementsAre("start high"));
}

TEST(Nomination, AJobThatFitsBesideOneNowStartsAtOnce) {
  PlannerWorld w(EightWay(1), Promised::PolicyWith(Backfill::kEasy));
  w.Submit(w.Make("early", Devices(4)));
  Job low = w.Make("low", Devices(4));
  low.roles[0].ask.cpu_milli = 90'000;
  w.Submit(low);
  w.Run();
  w.planner.Ended(w.Find("early"), w.now);
  Job high = w.Make("high", Devices(2));
  high.roles[0].ask.cpu_milli = 64'000;
  high.priority = 10;
  w.Submit(high);
  ASSERT_THAT(w.Run(), ElementsAre("preempt low"));
  Job beside = w.Make("beside", Devices(2));
  beside.priority = 5;
  w.Submit(beside);
  EXPECT_THAT(w.Run(), ElementsAre("start beside"));
  w.planner.Stopped(w.Find("low"), w.now);
  EXPECT_THAT(w.Run(), ElementsAre("start high"));
}

TEST(Nomination, IsGivenUpWithItsNode) {
  Promised w;
  w.planner.SetHealth(w.place, Health::kDraining, w.now);
  EXPECT_THAT(w.Run(), IsEmpty());
  EXPECT_THAT(w.plan.reserved, ::testing::Each(::testing::Field(&Reserved::members, IsEmpty())));
  w.planner.Ended(w.Find("stays"), w.now);
  EXPECT_THAT(w.Run(), ElementsAre("start high"));
  EXPECT_NE(w.NodesOf("high").front(), w.place);
}

TEST(Nomination, IsFreeAgainWhenItsJobLeaves) {
  Promised w;
  w.planner.Ended(w.Find("high"), w.now);
  w.planner.Stopped(w.Find("low"), w.now);
  EXPECT_THAT(w.Run(), ElementsAre("start low"));
}

TEST(Nomination, UnderStrictFifoNoJobOvertakesTheNominatedOne) {
  Promised w(Backfill::kFifo);
  w.planner.Ended(w.Find("stays"), w.now);
  w.Submit(w.Make("small", Devices(1)));
  EXPECT_THAT(w.Run(), IsEmpty());
  w.planner.Stopped(w.Find("low"), w.now);
  EXPECT_THAT(w.Run(), ElementsAre("start high", "start low", "start small"));
}

TEST(Nomination, SurvivesASnapshot) {
  Promised w;
  w.planner.Stopped(w.Find("low"), w.now);
  const Snapshot snapshot = w.planner.TakeSnapshot(w.now);
  Rng rng = w.rng;
  const Plan replayed = MakePlan(snapshot, Promised::PolicyWith(Backfill::kEasy), w.now, rng);
  EXPECT_THAT(w.Run(), ElementsAre("start high"));
  EXPECT_EQ(replayed.actions, w.plan.actions);
}

}  // namespace
}  // namespace scheduler
