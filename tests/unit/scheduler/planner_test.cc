#include "scheduler/planner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "scheduler/filler.h"
#include "tests/unit/scheduler/clusters.h"
#include "tests/unit/scheduler/planner_world.h"

namespace scheduler {
namespace {

using namespace testing;
using World = PlannerWorld;
using std::chrono::hours;
using std::chrono::minutes;
using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(Planner, StartsJobsThatFitAndSaysWhyOthersWait) {
  World w(EightWay(2));
  w.Submit(w.Make("a", Devices(8)));
  w.Submit(w.Make("b", Devices(8)));
  w.Submit(w.Make("c", Devices(8)));
  EXPECT_THAT(w.Run(), ElementsAre("start a", "start b"));
  EXPECT_EQ(w.WhyWaits("c"), "reserved");
  EXPECT_THAT(w.Run(), IsEmpty());
  w.planner.Ended(w.Find("a"), w.now);
  EXPECT_THAT(w.Run(), ElementsAre("start c"));
}

TEST(Planner, BackfillNeverDelaysTheFirstInLine) {
  World w(EightWay(2));
  w.Submit(w.Make("runs", Devices(8)));
  w.Run();
  w.Submit(w.Make("big", Devices(8), 2));
  Job longer = w.Make("longer", Devices(4));
  longer.estimate = hours(2);
  Job shorter = w.Make("shorter", Devices(4));
  shorter.estimate = minutes(30);
  w.Submit(longer);
  w.Submit(shorter);
  EXPECT_THAT(w.Run(), ElementsAre("start shorter"));
  ASSERT_EQ(w.plan.reserved.size(), 1u);
  EXPECT_EQ(w.plan.reserved[0].job, "big");
  EXPECT_EQ(w.plan.reserved[0].start, w.now + hours(1));
  EXPECT_THAT(w.plan.reserved[0].nodes, ElementsAre(0, 1));
}

TEST(Planner, AJobThatIsAMinuteLateIsNotExpectedToRunTwiceAsLong) {
  World w(EightWay(1));
  Job late = w.Make("late", Devices(8));
  late.estimate = hours(100);
  w.Submit(late);
  w.Run();
  const conf::TimePoint end = w.now + hours(100);
  w.now = end + minutes(1);
  w.Submit(w.Make("next", Devices(8)));
  w.Run();
  ASSERT_EQ(w.plan.reserved.size(), 1u);
  EXPECT_EQ(w.plan.reserved[0].start, end + minutes(5));
  w.now = end + hours(3);
  w.Run();
  ASSERT_EQ(w.plan.reserved.size(), 1u);
  EXPECT_GT(w.plan.reserved[0].start, w.now);
  EXPECT_LE(w.plan.reserved[0].start, end + hours(6));
}

// Of many jobs some always are about to end by their estimates: who changes to their nodes whenever his own
// are late never gets any.
TEST(Planner, KeepsLateReservedNodesUnlessOthersComeInHalfTheTime) {
  PlannerWorld world(EightWay(2));
  const conf::TimePoint begin = world.now;
  const auto submit = [&](const std::string& id, uint16_t devices, conf::Duration estimate) {
    Job job = world.Make(id, Devices(devices));
    job.estimate = estimate;
    world.Submit(std::move(job));
    return world.Run();
  };
  const auto reserved_at = [&](conf::Duration since_begin) {
    world.now = begin + since_begin;
    world.Run();
    return world.plan.reserved.at(0).nodes;
  };
  submit("late", 1, std::chrono::minutes(60));
  submit("next", 8, std::chrono::minutes(95));
  submit("big", 8, std::chrono::minutes(60));
  submit("small", 7, std::chrono::hours(24));
  const std::vector<NodeId> of_late = world.NodesOf("late");
  const std::vector<NodeId> of_next = world.NodesOf("next");
  ASSERT_NE(of_late, of_next);
  EXPECT_EQ(reserved_at(std::chrono::minutes(1)), of_late);
  // Expected 19 minutes from then, since it is late by 21, the other 14.
  EXPECT_EQ(reserved_at(std::chrono::minutes(81)), of_late);
  EXPECT_EQ(world.WhyWaits("small"), "behind");
  // And here 9 minutes and 4.
  EXPECT_EQ(reserved_at(std::chrono::minutes(91)), of_next);
  EXPECT_EQ(world.NodesOf("small"), of_late);
}

TEST(Planner, AJobThatTakesNoRoomPassesReservedNodes) {
  const auto submit = [](PlannerWorld& world, const std::string& id, Ask ask, conf::Duration estimate,
                         Isolation isolation = Isolation::kNone) {
    ask.isolation = isolation;
    Job job = world.Make(id, std::move(ask));
    job.estimate = estimate;
    world.Submit(std::move(job));
    world.Run();
  };
  const auto runs = [](PlannerWorld& world, const std::string& id) { return !world.NodesOf(id).empty(); };
  PlannerWorld world(EightWay(1));
  submit(world, "runs", Devices(6), hours(1));
  submit(world, "reserved", Devices(4), hours(1));
  submit(world, "small", Devices(1), hours(9));
  EXPECT_EQ(world.WhyWaits("small"), "behind");
  submit(world, "prepare", {}, hours(9));
  EXPECT_TRUE(runs(world, "prepare")) << world.WhyWaits("prepare");
  submit(world, "alone", {}, hours(9), Isolation::kNode);
  EXPECT_FALSE(runs(world, "alone"));

  PlannerWorld unshared(EightWay(1));
  submit(unshared, "runs", Devices(6), hours(1));
  submit(unshared, "reserved", Devices(4), hours(1), Isolation::kNode);
  submit(unshared, "prepare", {}, hours(9));
  EXPECT_FALSE(runs(unshared, "prepare")) << "the job that shares no node would wait for it";
}

TEST(Planner, StrictFifoLetsNoJobOvertake) {
  Policy policy;
  policy.backfill.kind = Backfill::kFifo;
  World w(EightWay(2), policy);
  w.Submit(w.Make("runs", Devices(8)));
  w.Run();
  w.Submit(w.Make("big", Devices(8), 2));
  w.Submit(w.Make("small", Devices(1)));
  EXPECT_THAT(w.Run(), IsEmpty());
  EXPECT_EQ(w.WhyWaits("big"), "first-in-line");
}

TEST(Planner, AJobThatCanNeverFitDelaysNoOther) {
  Policy policy;
  policy.backfill.kind = Backfill::kFifo;
  World w(EightWay(2), policy);
  w.Submit(w.Make("huge", Devices(8), 3));
  w.Submit(w.Make("small", Devices(1)));
  EXPECT_THAT(w.Run(), ElementsAre("start small"));
  EXPECT_EQ(w.WhyWaits("huge"), "impossible");
}

TEST(Planner, PreemptsLowerPriorityAfterItsGraceAndNotTwice) {
  Policy policy;
  policy.preemption.grace = seconds(30);
  World w(EightWay(1), policy);
  w.Submit(w.Make("low", Devices(8)));
  w.Run();
  Job high = w.Make("high", Devices(8));
  high.priority = 10;
  w.Submit(high);
  EXPECT_THAT(w.Run(), ElementsAre("preempt low"));
  EXPECT_EQ(w.plan.actions[0].grace, seconds(30));
  EXPECT_THAT(w.plan.actions[0].why.text, HasSubstr("high"));
  w.now += seconds(10);
  EXPECT_THAT(w.Run(), IsEmpty());  // room comes already
  w.now += seconds(20);
  w.planner.Stopped(w.Find("low"), w.now);
  EXPECT_THAT(w.Run(), ElementsAre("start high"));
  EXPECT_EQ(w.planner.jobs()[w.Find("low")].phase, Phase::kPending);
}

TEST(Planner, AHigherPriorityTakesNothingThatIsNotPreemptible) {
  World w(EightWay(1));
  Job low = w.Make("low", Devices(8));
  low.preemptible = false;
  w.Submit(low);
  w.Run();
  Job high = w.Make("high", Devices(8));
  high.priority = 10;
  w.Submit(high);
  EXPECT_THAT(w.Run(), IsEmpty());
}

TEST(Planner, AStarvedQueueReclaimsItsDeservedShareInOneCycle) {
  Policy policy;
  policy.preemption.grace = seconds(0);
  World w(EightWay(4), policy,
          {{.name = "a", .parent = "", .deserved = {{"*", 16'000}}},
           {.name = "b", .parent = "", .deserved = {{"*", 16'000}}}});
  for (int i = 0; i < 4; ++i) {
    Job job = w.Make("a" + std::to_string(i), Devices(8));
    job.queue = "a";
    w.Submit(job);
  }
  EXPECT_EQ(w.Run().size(), 4u);  // borrows what nobody asks for
  for (int i = 0; i < 2; ++i) {
    Job job = w.Make("b" + std::to_string(i), Devices(8));
    job.queue = "b";
    w.Submit(job);
  }
  EXPECT_EQ(w.Run().size(), 2u);
  for (const Action& action : w.plan.actions) {
    EXPECT_EQ(action.kind, ActionKind::kPreempt);
    EXPECT_EQ(action.why.code, "reclaimed");
    w.planner.Stopped(w.Find(action.job), w.now);
  }
  EXPECT_THAT(w.Run(), ElementsAre("start b0", "start b1"));
  EXPECT_THAT(w.Run(), IsEmpty());  // and nobody takes it back
}

TEST(Planner, AStarvedQueueReclaimsNoMoreThanItDeservesForAllItsJobsTogether) {
  World w(EightWay(4), {},
          {{.name = "a", .parent = "", .deserved = {{"*", 16'000}}},
           {.name = "b", .parent = "", .deserved = {{"*", 16'000}}}});
  const auto submit = [&](const std::string& queue, int jobs, uint16_t devices) {
    for (int i = 0; i < jobs; ++i) {
      Job job = w.Make(queue + std::to_string(devices) + "-" + std::to_string(i), Devices(devices));
      job.queue = queue;
      w.Submit(job);
    }
  };
  submit("a", 32, 1);
  EXPECT_EQ(w.Run().size(), 32u);  // borrows what nobody asks for
  submit("b", 16, 1);
  submit("b", 8, 2);
  EXPECT_EQ(w.Run().size(), 16u);
  for (const Action& action : w.plan.actions) EXPECT_EQ(action.why.code, "reclaimed");
  const std::vector<Action> victims = w.plan.actions;
  w.now += seconds(10);
  EXPECT_THAT(w.Run(), IsEmpty());  // all is under way
  w.now += seconds(20);
  for (const Action& action : victims) w.planner.Stopped(w.Find(action.job), w.now);
  w.Run();
  EXPECT_EQ(w.planner.queues().allocated(0, kAnyKind), 16'000);
  EXPECT_EQ(w.planner.queues().allocated(1, kAnyKind), 16'000);
  w.now += seconds(10);
  EXPECT_THAT(w.Run(), IsEmpty());  // and nobody takes it back
}

// Its queue keeps what it deserves, so the gang may not stop as a whole: members beyond that leave.
TEST(Planner, AStarvedQueueReclaimsSurplusMembersOfAGangThatMayNotStopAsAWhole) {
  PlannerWorld w(EightWay(1), {},
                 {{.name = "a", .parent = "", .deserved = {{"*", 4'000}}},
                  {.name = "b", .parent = "", .deserved = {{"*", 4'000}}}});
  Job gang = w.Make("gang", Devices(1), 8);
  gang.queue = "a";
  gang.roles[0].min_count = 2;
  w.Submit(gang);
  EXPECT_THAT(w.Run(), ElementsAre("start gang"));
  for (const char* const id : {"first", "second"}) {
    Job due = w.Make(id, Devices(2));
    due.queue = "b";
    w.Submit(due);
  }
  EXPECT_THAT(w.Run(), ElementsAre("shrink gang"));
  EXPECT_EQ(w.plan.actions[0].members.size(), 2u);
}

// Queue b deserves two devices, and a none.
std::vector<Queue> OnlyBDeserves() {
  return {{.name = "a", .parent = "", .deserved = {{"*", 0}}},
          {.name = "b", .parent = "", .deserved = {{"*", 2'000}}}};
}

// An ordinary job of queue b, for contrast, stops the one that holds the devices.
void ExpectThatAnOrdinaryJobReclaimsFrom(PlannerWorld& w, const std::string& holder) {
  Job due = w.Make("due", Devices(1));
  due.queue = "b";
  w.Submit(due);
  EXPECT_THAT(w.Run(), ElementsAre("preempt " + holder));
}

// If it did, it and the job of higher priority, which holds more than its queue deserves, would stop each other without end.
TEST(Planner, AJobWithoutDevicesReclaimsNone) {
  PlannerWorld w(EightWay(1), {}, OnlyBDeserves());
  Job urgent = w.Make("urgent", Devices(1));
  urgent.queue = "a";
  urgent.priority = 5;
  urgent.roles[0].ask.cpu_milli = 128'000;
  w.Submit(urgent);
  EXPECT_THAT(w.Run(), ElementsAre("start urgent"));
  Job cores = w.Make("cores", Devices(0));
  cores.queue = "b";
  cores.roles[0].ask.cpu_milli = 64'000;
  w.Submit(cores);
  EXPECT_THAT(w.Run(), IsEmpty());
  ExpectThatAnOrdinaryJobReclaimsFrom(w, "urgent");
}

// Every job may stop a filler. If a filler stopped one, the two would stop each other without end.
TEST(Planner, AFillerReclaimsNothing) {
  PlannerWorld w(EightWay(1), {}, OnlyBDeserves());
  Job holds = w.Make("holds", Devices(8));
  holds.queue = "a";
  w.Submit(holds);
  EXPECT_THAT(w.Run(), ElementsAre("start holds"));
  Job filler = w.Make("filler", Devices(1));
  filler.queue = "b";
  filler.priority = kFillerPriority;
  w.Submit(filler);
  EXPECT_THAT(w.Run(), IsEmpty());
  ExpectThatAnOrdinaryJobReclaimsFrom(w, "holds");
}

TEST(Planner, AnElasticGangGrowsIntoFreeRoomAndShrinksForOthers) {
  Policy policy;
  World w(EightWay(4), policy);
  w.Submit(w.Make("fixed", Devices(8)));
  Job elastic = w.Make("elastic", Devices(8), 4);
  elastic.roles[0].min_count = 2;
  w.Submit(elastic);
  EXPECT_THAT(w.Run(), ElementsAre("start fixed", "start elastic"));
  EXPECT_EQ(w.NodesOf("elastic").size(), 3u);
  w.planner.Ended(w.Find("fixed"), w.now);
  EXPECT_THAT(w.Run(), ElementsAre("start elastic"));
  EXPECT_EQ(w.plan.actions[0].why.code, "grown");
  EXPECT_EQ(w.NodesOf("elastic").size(), 4u);

  w.now += hours(1);
  Job high = w.Make("high", Devices(8));
  high.priority = 10;
  w.Submit(high);
  EXPECT_THAT(w.Run(), ElementsAre("shrink elastic"));
  EXPECT_EQ(w.plan.actions[0].members.size(), 1u);
  w.now += seconds(30);
  w.planner.Moved(w.Find("elastic"), w.now);
  EXPECT_THAT(w.Run(), ElementsAre("start high"));
  EXPECT_EQ(w.NodesOf("elastic").size(), 3u);
}

TEST(Planner, AGangThatLosesANodeGetsAnotherMemberAndKeepsTheRest) {
  World w(EightWay(4));
  w.Submit(w.Make("gang", Devices(8), 3));
  w.Run();
  const std::vector<NodeId> before = w.NodesOf("gang");
  w.now += minutes(5);
  w.planner.NodeFault(before[0], w.now);
  EXPECT_THAT(w.Run(), ElementsAre("start gang"));
  EXPECT_EQ(w.plan.actions[0].why.code, "hot-swapped");
  EXPECT_EQ(w.plan.actions[0].members.size(), 1u);
  EXPECT_EQ(w.NodesOf("gang").size(), 3u);
  EXPECT_EQ(std::ranges::count(w.NodesOf("gang"), before[0]), 0);
}

TEST(Planner, AJobWhoseNodeFailsWhileItStopsStartsAgainOnceAndStays) {
  Policy policy;
  policy.faults.hot_swap = false;
  PlannerWorld w(EightWay(2), policy);
  w.Submit(w.Make("low", Devices(8)));
  w.Submit(w.Make("other", Devices(8)));
  EXPECT_THAT(w.Run(), ElementsAre("start low", "start other"));
  Job high = w.Make("high", Devices(8));
  high.priority = 10;
  w.Submit(high);
  const std::vector<std::string> stops = w.Run();
  ASSERT_EQ(stops.size(), 1u);
  const std::string victim = stops[0].substr(sizeof("preempt"));
  w.planner.NodeFault(w.NodesOf(victim).front(), w.now);
  w.planner.Stopped(w.Find(victim), w.now);
  for (NodeId node = 0; node < 2; ++node) w.planner.SetHealth(node, Health::kHealthy, w.now);
  w.Run();
  w.planner.Ended(w.Find("high"), w.now);
  EXPECT_THAT(w.Run(), ElementsAre("start " + victim));
  EXPECT_THAT(w.Run(), IsEmpty());
}

TEST(Planner, AFaultyNodeIsSuspectThenQuarantinedAndASuspectRecovers) {
  Policy policy;
  policy.faults = {.suspect_after = 1, .quarantine_after = 2, .window = hours(24), .recover_after = hours(1)};
  World w(EightWay(2), policy);
  w.planner.NodeFault(0, w.now);
  w.Run();
  EXPECT_EQ(w.planner.state().health(0), Health::kSuspect);
  EXPECT_EQ(w.planner.NextDue(), w.now + hours(1));
  w.now += hours(1);
  w.Run();
  EXPECT_EQ(w.planner.state().health(0), Health::kHealthy);
  w.planner.NodeFault(0, w.now);
  w.now += hours(10);
  w.Run();
  EXPECT_EQ(w.planner.state().health(0), Health::kQuarantined);
  w.planner.SetHealth(0, Health::kHealthy, w.now);
  w.Submit(w.Make("both", Devices(8), 2));
  EXPECT_THAT(w.Run(), ElementsAre("start both"));
}

TEST(Planner, ReplicasLeaveADrainingNodeByStartingElsewhereFirst) {
  World w(EightWay(2));
  Job replica = w.Make("replica", Devices(4));
  replica.work = WorkClass::kInference;
  w.Submit(replica);
  w.Run();
  const NodeId from = w.NodesOf("replica")[0];
  w.planner.SetHealth(from, Health::kDraining, w.now);
  EXPECT_THAT(w.Run(), ElementsAre("move replica"));
  EXPECT_EQ(w.NodesOf("replica").size(), 2u);  // both, until the move is done
  w.planner.Moved(w.Find("replica"), w.now);
  EXPECT_THAT(w.NodesOf("replica"), ElementsAre(1 - from));
}

TEST(Planner, DependentsLeaveWhenTheirDependencyFails) {
  World w(EightWay(2));
  Job first = w.Make("first", Devices(1));
  first.restart_budget = 0;
  Job second = w.Make("second", Devices(1));
  second.after = {"first"};
  Job third = w.Make("third", Devices(1));
  third.after = {"second"};
  w.Submit(first);
  w.Submit(second);
  w.Submit(third);
  EXPECT_THAT(w.Run(), ElementsAre("start first"));
  w.planner.Failed(w.Find("first"), w.now);
  EXPECT_THAT(w.Run(), ElementsAre("stop second", "stop third"));
  EXPECT_EQ(w.planner.pending(), 0u);
}

TEST(Planner, DependentsLeaveWhenTheirDependencyIsStoppedAtItsLimit) {
  PlannerWorld w(EightWay(1));
  Job first = w.Make("first", Devices(8));
  first.limit = hours(1);
  w.Submit(first);
  Job second = w.Make("second", Devices(1));
  second.after = {"first"};
  w.Submit(second);
  EXPECT_THAT(w.Run(), ElementsAre("start first"));
  w.now += hours(1);
  EXPECT_THAT(w.Run(), ElementsAre("stop first"));
  w.planner.Stopped(w.Find("first"), w.now);
  EXPECT_THAT(w.Run(), ElementsAre("stop second"));
  EXPECT_EQ(w.plan.actions[0].why.code, "dependency-failed");
}

TEST(Planner, DependentsStartWhenTheirDependencySucceeds) {
  World w(EightWay(2));
  w.Submit(w.Make("first", Devices(1)));
  Job second = w.Make("second", Devices(1));
  second.after = {"first"};
  w.Submit(second);
  w.Run();
  w.planner.Ended(w.Find("first"), w.now);
  EXPECT_THAT(w.Run(), ElementsAre("start second"));
}

// A member that has been told to leave does not keep a gang alive.
TEST(Planner, AGangWhoseOtherMembersAreLostWhileItShrinksStartsAgain) {
  World w(EightWay(2), {},
          {{.name = "default", .parent = {}, .deserved = {{"*", 8'000}}},
           {.name = "other", .parent = {}, .deserved = {{"*", 8'000}}}});
  Job elastic = w.Make("elastic", Devices(8), 2);
  elastic.roles[0].min_count = 1;
  w.Submit(elastic);
  w.Run();
  Job due = w.Make("due", Devices(8));
  due.queue = "other";
  w.Submit(due);
  ASSERT_THAT(w.Run(), ElementsAre("shrink elastic"));
  const NodeId left = w.plan.actions[0].members[0].holding.node;
  w.planner.NodeFault(1 - left, w.now);
  EXPECT_THAT(w.Run(), ElementsAre("preempt elastic"));
}

// "head" has both nodes reserved from the end of "early", and "late" has filled the other one meanwhile.
struct Overrun : PlannerWorld {
  explicit Overrun(bool evicts) : PlannerWorld(EightWay(2), With(evicts)) {
    Job early = Make("early", Devices(8));
    early.estimate = hours(2);
    Submit(early);
    Run();
    Submit(Make("head", Devices(8), 2));
    Submit(Make("late", Devices(8)));
  }
  static Policy With(bool evicts) {
    Policy policy;
    policy.backfill.evict_overrunning = evicts;
    return policy;
  }
};

TEST(Planner, ABackfilledJobThatOutlivesItsEstimateMakesWayWhenTheReservationBegins) {
  for (const bool evicts : {true, false}) {
    Overrun w(evicts);
    EXPECT_THAT(w.Run(), ElementsAre("start late"));
    EXPECT_TRUE(w.planner.jobs()[w.Find("late")].backfilled);
    w.now += hours(1);
    EXPECT_THAT(w.Run(), IsEmpty());  // its estimate is over, but not what was reserved before
    w.now += hours(1);
    w.planner.Ended(w.Find("early"), w.now);
    if (!evicts) {
      EXPECT_THAT(w.Run(), IsEmpty());
      continue;
    }
    EXPECT_THAT(w.Run(), ElementsAre("preempt late"));
    EXPECT_EQ(w.plan.actions[0].why.code, "overran");
    EXPECT_THAT(
        w.plan.actions[0].why.text,
        HasSubstr("makes room for head: stops: it overtook jobs ahead of it and has run for 2h, longer"));
    w.planner.Stopped(w.Find("late"), w.now);
    EXPECT_THAT(w.Run(), ElementsAre("start head"));
  }
}

TEST(Planner, AJobThatOvertookNoOtherMayOutliveItsEstimate) {
  Overrun w(true);
  EXPECT_THAT(w.Run(), ElementsAre("start late"));
  w.now += hours(2);
  w.planner.Ended(w.Find("late"), w.now);
  EXPECT_THAT(w.Run(), IsEmpty());  // "early" was the first in line when it started
  w.now += hours(1);
  EXPECT_THAT(w.Run(), IsEmpty());
}

TEST(Planner, NoPlacesAreKeptForAJobThatItsQueueMayNotHold) {
  World w(EightWay(1), {},
          {{.name = "default", .parent = {}, .borrows = false}, {.name = "free", .parent = {}}});
  Job filler = w.Make("filler", Devices(1));
  filler.queue = "free";
  filler.priority = kFillerPriority;
  w.Submit(filler);
  w.Run();
  w.Submit(w.Make("part", Partition("1g.10gb")));
  Job other = w.Make("other", Devices(4));
  other.queue = "free";
  w.Submit(other);
  EXPECT_THAT(w.Run(), ElementsAre("start other"));
  EXPECT_EQ(w.WhyWaits("part"), "quota");
  EXPECT_THAT(w.plan.reserved, IsEmpty());
}

TEST(Planner, AnAdvanceReservationStartsOnTime) {
  World w(EightWay(2));
  Job booked = w.Make("booked", Devices(8), 2);
  booked.not_before = w.now + hours(3);
  w.Submit(booked);
  Job fits = w.Make("fits", Devices(8));
  fits.estimate = hours(2);
  Job too_long = w.Make("too-long", Devices(8));
  too_long.estimate = hours(4);
  w.Submit(fits);
  w.Submit(too_long);
  EXPECT_THAT(w.Run(), ElementsAre("start fits"));
  EXPECT_EQ(w.planner.NextDue(), w.now + hours(3));
  w.now += hours(2);
  w.planner.Ended(w.Find("fits"), w.now);
  EXPECT_THAT(w.Run(), IsEmpty());
  w.now += hours(1);
  EXPECT_THAT(w.Run(), ElementsAre("start booked"));
}

TEST(Planner, NoCycleIsDueForAJobThatWaitsForAnotherAfterItsStartTime) {
  World w(EightWay(1));
  w.Submit(w.Make("first", Devices(8)));
  Job later = w.Make("later", Devices(8));
  later.after = {"first"};
  later.not_before = w.now + minutes(30);
  w.Submit(later);
  EXPECT_THAT(w.Run(), ElementsAre("start first"));
  EXPECT_EQ(w.planner.NextDue(), later.not_before);
  w.now += minutes(30);
  EXPECT_THAT(w.Run(), IsEmpty());
  EXPECT_EQ(w.planner.NextDue(), std::nullopt);
  w.planner.Ended(w.Find("first"), w.now);
  EXPECT_THAT(w.Run(), ElementsAre("start later"));
}

TEST(Planner, UpdateNodeTakesAwayDevicesAndGivesThemBackWithoutTouchingMembers) {
  World w(EightWay(1));
  w.Submit(w.Make("small", Devices(2)));
  EXPECT_THAT(w.Run(), ElementsAre("start small"));
  const Holding held = w.planner.state().member(w.planner.state().of(w.Find("small"))[0]).holding;
  w.planner.UpdateNode(0, Health::kHealthy, 0xff & ~held.devices, {}, w.now);
  w.Submit(w.Make("next", Devices(1)));
  EXPECT_THAT(w.Run(), IsEmpty());
  EXPECT_EQ(w.NodesOf("small"), (std::vector<NodeId>{0}));
  w.planner.UpdateNode(0, Health::kQuarantined, 0, {}, w.now);
  EXPECT_THAT(w.Run(), IsEmpty());
  w.planner.UpdateNode(0, Health::kHealthy, held.devices, {}, w.now);
  EXPECT_THAT(w.Run(), ElementsAre("start next"));
}

TEST(Planner, AnArrayRunsAsManyElementsAsItMay) {
  World w(EightWay(2));
  for (int i = 0; i < 5; ++i) {
    Job element = w.Make("sweep[" + std::to_string(i) + "]", Devices(1));
    element.array = "sweep";
    element.max_running = 2;
    w.Submit(element);
  }
  EXPECT_THAT(w.Run(), ElementsAre("start sweep[0]", "start sweep[1]"));
  EXPECT_EQ(w.WhyWaits("sweep[2]"), "array");
  w.planner.Ended(w.Find("sweep[0]"), w.now);
  EXPECT_THAT(w.Run(), ElementsAre("start sweep[2]"));
}

TEST(Planner, AnIdleNotebookIsSuspendedAndComesBackWithItsUser) {
  World w(EightWay(1));
  Job notebook = w.Make("notebook", Devices(1));
  notebook.work = WorkClass::kNotebook;
  notebook.idle_timeout = minutes(30);
  w.Submit(notebook);
  w.Run();
  w.planner.Idle(w.Find("notebook"), w.now);
  w.now += minutes(29);
  EXPECT_THAT(w.Run(), IsEmpty());
  w.now += minutes(1);
  EXPECT_THAT(w.Run(), ElementsAre("suspend notebook"));
  w.planner.Stopped(w.Find("notebook"), w.now);
  EXPECT_EQ(w.planner.state().totals().allocated_milli, 0);
  EXPECT_THAT(w.Run(), IsEmpty());
  w.planner.Used(w.Find("notebook"), w.now);
  EXPECT_THAT(w.Run(), ElementsAre("start notebook"));
}

TEST(Planner, AJobIsStoppedAtItsLimit) {
  World w(EightWay(1));
  Job job = w.Make("job", Devices(1));
  job.limit = hours(2);
  w.Submit(job);
  w.Run();
  EXPECT_EQ(w.planner.NextDue(), w.now + hours(2));
  w.now += hours(2);
  EXPECT_THAT(w.Run(), ElementsAre("stop job"));
  w.planner.Stopped(w.Find("job"), w.now);
  EXPECT_EQ(w.Find("job"), kNone);
}

TEST(Planner, ARestartKeepsTheWorkUpToTheLastCheckpoint) {
  World w(EightWay(1));
  Job job = w.Make("job", Devices(1));
  job.checkpoint = {.interval = minutes(10), .save = seconds(5), .restart = minutes(1)};
  w.Submit(job);
  w.Run();
  w.planner.Checkpointed(w.Find("job"), w.now + minutes(20));
  w.now += minutes(25);
  w.planner.Failed(w.Find("job"), w.now);
  EXPECT_EQ(w.planner.jobs()[w.Find("job")].done, minutes(20));
  EXPECT_EQ(w.planner.jobs().ExpectedRun(w.Find("job"), hours(24)), minutes(41));
}

TEST(Planner, InferenceStaysInItsZoneAndOtherWorkOutsideOfIt) {
  Policy policy;
  policy.inference_zone = {"leaf-1"};
  World w(EightWay(4, 2), policy);
  Job replica = w.Make("replica", Devices(1));
  replica.work = WorkClass::kInference;
  w.Submit(replica);
  w.Submit(w.Make("training", Devices(8), 2));
  w.Submit(w.Make("more", Devices(1)));
  EXPECT_THAT(w.Run(), ElementsAre("start replica", "start training"));
  EXPECT_GE(w.NodesOf("replica")[0], 2u);
  EXPECT_THAT(w.NodesOf("training"), ElementsAre(0, 1));
}

TEST(Planner, DefragmentationEmptiesNodesByMovingMembers) {
  Policy policy;
  policy.placement = "spread";
  policy.defragment = {.enabled = true, .every = minutes(10)};
  World w(EightWay(4, 4), policy);
  w.now += minutes(1);
  for (int i = 0; i < 4; ++i) {
    Job job = w.Make("job-" + std::to_string(i), Devices(2));
    job.checkpoint = {.interval = minutes(10), .save = seconds(5), .restart = seconds(30)};
    w.Submit(job);
  }
  w.Run();
  EXPECT_EQ(w.planner.state().totals().fragmented_nodes, 4u);
  for (int round = 0; round < 4; ++round) {
    w.now += minutes(10);
    w.Run();
    for (const Action& action : w.plan.actions) {
      EXPECT_EQ(action.why.code, "defragmented") << action.why.text;
      w.planner.Moved(w.Find(action.job), w.now);
    }
  }
  EXPECT_EQ(w.planner.state().totals().fragmented_nodes, 0u);  // all eight devices on one node
  EXPECT_EQ(w.planner.state().Check(), "");
}

TEST(Planner, DefragmentationMovesAMemberOncePerRound) {
  Policy policy;
  policy.placement = "spread";
  policy.defragment = {.enabled = true, .every = minutes(10)};
  World w(EightWay(4, 4), policy);
  w.now += minutes(1);
  // Three and three of five on a node: one of three must make room before a five can leave its node.
  for (const uint16_t devices : std::to_array<uint16_t>({5, 5, 5, 3, 1, 1, 2})) {
    Job job = w.Make("job-" + std::to_string(w.planner.jobs().bound()), Devices(devices));
    job.checkpoint = {.interval = minutes(10), .save = seconds(5), .restart = seconds(30)};
    w.Submit(job);
    w.Run();
  }
  for (int round = 0; round < 6; ++round) {
    w.now += minutes(10);
    std::vector<std::string> moved = w.Run();
    std::ranges::sort(moved);
    EXPECT_EQ(std::ranges::adjacent_find(moved), moved.end());
    for (const Action& action : w.plan.actions) w.planner.Moved(w.Find(action.job), w.now);
    EXPECT_EQ(w.planner.state().member_count(), 7u);
  }
}

TEST(Planner, ExplainsAWaitByTheQuotaThatRefuses) {
  World w(EightWay(2), {}, {{.name = "small", .parent = "", .limit = {{"*", 4'000}}}});
  Job job = w.Make("job", Devices(8));
  job.queue = "small";
  w.Submit(job);
  EXPECT_THAT(w.Run(), IsEmpty());
  const Explanation why = w.planner.Explain(w.Find("job"), w.now);
  EXPECT_EQ(why.cause, WaitCause::kQuota);
  ASSERT_EQ(why.quotas.size(), 1u);
  EXPECT_EQ(why.quotas[0].refusal.queue, "small");
  EXPECT_EQ(why.quotas[0].refusal.most, 4'000);
}

// Such as a replica for batches that the autoscaler takes.
TEST(Planner, AJobThatIsReplacedKeepsItsPlaceAndIsPreemptedAsTheOtherOne) {
  World w(EightWay(2));
  Job filler = w.Make("a", Devices(8));
  filler.work = WorkClass::kBatch;
  filler.priority = kFillerPriority;
  w.Submit(filler);
  filler.id = "b";
  w.Submit(filler);
  w.Run();
  const std::vector<NodeId> nodes = w.NodesOf("a");
  Job kept = filler;
  kept.id = "a";
  kept.work = WorkClass::kInference;
  kept.priority = 0;
  kept.preemptible = false;
  w.planner.Replace(w.Find("a"), kept, w.now);
  EXPECT_EQ(w.NodesOf("a"), nodes);
  EXPECT_THAT(w.Run(), IsEmpty());
  Job urgent = kept;
  urgent.id = "urgent";
  w.Submit(urgent);
  EXPECT_THAT(w.Run(), ElementsAre("preempt b"));
  w.planner.Stopped(w.Find("b"), w.now);
  EXPECT_THAT(w.Run(), ElementsAre("start urgent"));
  kept.priority = kFillerPriority;
  kept.preemptible = true;
  w.planner.Replace(w.Find("a"), kept, w.now);
  urgent.id = "another";
  w.Submit(urgent);
  EXPECT_THAT(w.Run(), ElementsAre("preempt a"));
}

}  // namespace
}  // namespace scheduler
