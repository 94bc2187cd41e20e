// Gangs that prefer to stand near each other, and wait for that for a while.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "scheduler/io/explanation_text.h"
#include "scheduler/planner.h"
#include "tests/unit/scheduler/clusters.h"
#include "tests/unit/scheduler/planner_world.h"

namespace scheduler {
namespace {

using namespace testing;
using World = PlannerWorld;
using std::chrono::hours;
using std::chrono::minutes;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Two leaves of two nodes, and a job on one node of each.
struct Crowded : World {
  Crowded() : World(EightWay(4, 2)) {
    for (const char* id : {"a", "b", "c"}) Submit(Make(id, Devices(8)));
    Run();
    planner.Ended(Find("b"), now);  // now nodes 1 and 3 are free
    Run();
  }
  void SubmitGang(conf::Duration wait) {
    Job gang = Make("gang", Devices(8), 2);
    gang.topology = {.level = "leaf", .required = false, .wait = wait};
    Submit(gang);
  }
};

TEST(Nearness, IsOnlyPreferredWithoutAWait) {
  Crowded w;
  w.SubmitGang({});
  EXPECT_THAT(w.Run(), ElementsAre("start gang"));
}

TEST(Nearness, JobWaitsForItAndStartsThere) {
  Crowded w;
  w.SubmitGang(hours(1));
  EXPECT_THAT(w.Run(), IsEmpty());
  EXPECT_EQ(w.planner.NextDue(), w.now + hours(1));
  w.now += minutes(20);
  w.planner.Ended(w.Find("c"), w.now);
  EXPECT_THAT(w.Run(), ElementsAre("start gang"));
  std::vector<DomainId> leaves;
  for (const MemberAt& member : w.plan.actions[0].members) {
    leaves.push_back(w.cluster.nodes[member.holding.node].domain);
  }
  ASSERT_EQ(leaves.size(), 2u);
  EXPECT_EQ(leaves[0], leaves[1]);
}

TEST(Nearness, IsGivenUpWhenItsWaitIsOver) {
  Crowded w;
  w.SubmitGang(minutes(30));
  EXPECT_THAT(w.Run(), IsEmpty());
  w.now += minutes(29);
  EXPECT_THAT(w.Run(), IsEmpty());
  w.now += minutes(1);
  EXPECT_THAT(w.Run(), ElementsAre("start gang"));
}

TEST(Nearness, TheTimeCountsFromTheSubmissionNotFromTheFirstCycle) {
  Crowded w;
  w.SubmitGang(minutes(30));
  w.now += minutes(30);
  EXPECT_THAT(w.Run(), ElementsAre("start gang"));
}

TEST(Nearness, DoesNotWaitForeverForALeafThatCannotHoldTheGang) {
  Crowded w;
  Job gang = w.Make("wide", Devices(4), 4);
  gang.topology = {.level = "leaf", .required = false, .wait = minutes(10)};
  gang.roles[0].count = gang.roles[0].min_count = 4;
  w.Submit(gang);
  w.now += minutes(10);
  EXPECT_THAT(w.Run(), ElementsAre("start wide"));
}

TEST(Nearness, AWithdrawnJobIsForgotten) {
  Crowded w;
  w.SubmitGang(hours(1));
  w.Run();
  w.planner.Ended(w.Find("gang"), w.now);
  w.Submit(w.Make("next", Devices(8)));
  EXPECT_THAT(w.Run(), ElementsAre("start next"));
  w.now += hours(2);
  EXPECT_THAT(w.Run(), IsEmpty());
}

TEST(Nearness, ExplanationSaysHowLongTheJobWaitsForIt) {
  Crowded w;
  w.SubmitGang(hours(1));
  w.Run();
  EXPECT_THAT(io::InWords(w.planner.Explain(w.Find("gang"), w.now)),
              AllOf(Contains(HasSubstr("It waits for one leaf: leaf-0 comes closest, with room for 1 of 2")),
                    Contains(HasSubstr("It will accept any place"))));
}

}  // namespace
}  // namespace scheduler
