#include "scheduler/cycle/moves.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "scheduler/filler.h"
#include "scheduler/io/snapshot_json.h"
#include "tests/unit/scheduler/clusters.h"
#include "tests/unit/scheduler/planner_world.h"

namespace scheduler {
namespace {

using namespace testing;

using std::chrono::hours;
using std::chrono::minutes;
using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;
using ::testing::UnorderedElementsAre;

Policy MovingPolicy(uint32_t per_hour = 8) {
  Policy policy;
  policy.placement = "spread";
  policy.inference_placement = "spread";
  policy.moves = {
      .per_hour = per_hour, .rest = minutes(10), .least_left = minutes(15), .least_gain = minutes(10)};
  return policy;
}

Job WithCheckpoint(Job job) {
  job.checkpoint = {.interval = minutes(10), .save = seconds(5), .restart = seconds(30)};
  return job;
}

Job AsReplica(Job job) {
  job.work = WorkClass::kInference;
  job.preemptible = false;
  job.estimate.reset();
  return job;
}

// Two nodes, each with a workload of two devices, and a job that needs a whole node.
struct FragmentedPair : PlannerWorld {
  FragmentedPair(Policy policy, bool replicas) : PlannerWorld(EightWay(2), std::move(policy)) {
    for (const char* const id : {"a", "b"}) {
      Job job = Make(id, Devices(2));
      job.estimate = hours(20);
      Submit(replicas ? AsReplica(job) : WithCheckpoint(job));
      Run();
    }
  }
};

// The second cycle knows what the first one has reserved.
std::vector<std::string> RunTwice(PlannerWorld& w) {
  w.Run();
  w.now += seconds(1);
  return w.Run();
}

TEST(Moves, AJobThatSavesMakesWayForOneThatNeedsAWholeNode) {
  FragmentedPair w(MovingPolicy(), false);
  ASSERT_NE(w.NodesOf("a"), w.NodesOf("b"));
  w.now += minutes(30);
  w.Submit(w.Make("whole", Devices(8)));
  EXPECT_THAT(RunTwice(w), ElementsAre("move a"));
  const Action& move = w.plan.actions.front();
  EXPECT_EQ(move.why.code, "makes-way");
  EXPECT_THAT(move.why.text, HasSubstr("so that whole with 8 devices fits"));
  EXPECT_EQ(w.WhyWaits("whole"), "reserved");
  EXPECT_EQ(w.planner.state().Check(), "");
  // Old and new place are held until it has moved.
  EXPECT_EQ(w.NodesOf("a").size(), 2u);
  EXPECT_THAT(w.Run(), IsEmpty());
  w.planner.Moved(w.Find("a"), w.now);
  EXPECT_THAT(w.Run(), ElementsAre("start whole"));
  EXPECT_EQ(w.NodesOf("a"), w.NodesOf("b"));
}

// Each half of a device is free for one member of the pair, not for both.
TEST(Moves, TheNewPlacesOfAJobAreFreeTogether) {
  Cluster cluster = EightWay(1);
  cluster.types[0].devices = 2;
  PlannerWorld w(cluster, MovingPolicy());
  w.Submit(w.Make("half", Share(500)));
  w.Run();
  w.Submit(AsReplica(w.Make("pair", Share(500), 2)));
  ASSERT_THAT(w.Run(), ElementsAre("start pair"));
  const std::vector<MemberAt> members = w.plan.actions[0].members;
  w.planner.Ended(w.Find("half"), w.now);
  ASSERT_NE(members[0].holding.devices, members[1].holding.devices);
  w.now += minutes(30);
  w.Submit(w.Make("whole", Devices(1)));
  EXPECT_THAT(RunTwice(w), IsEmpty());
}

TEST(Moves, NothingMovesWithoutABudget) {
  FragmentedPair w(MovingPolicy(0), false);
  w.now += minutes(30);
  w.Submit(w.Make("whole", Devices(8)));
  EXPECT_THAT(RunTwice(w), IsEmpty());
}

TEST(Moves, TheBudgetIsOfAnHour) {
  PlannerWorld w(EightWay(4, 4), MovingPolicy(1));
  for (const char* const id : {"a", "b", "c", "d"}) {
    Job job = WithCheckpoint(w.Make(id, Devices(2)));
    job.estimate = hours(20);
    w.Submit(job);
    w.Run();
  }
  w.now += minutes(30);
  w.Submit(w.Make("whole-1", Devices(8)));
  w.Submit(w.Make("whole-2", Devices(8)));
  EXPECT_EQ(RunTwice(w).size(), 1u);
  for (const Action& action : w.plan.actions) w.planner.Moved(w.Find(action.job), w.now);
  EXPECT_THAT(w.Run(), ElementsAre("start whole-1"));
  w.now += minutes(50);
  EXPECT_THAT(RunTwice(w), IsEmpty());
  w.now += minutes(10);
  // The first one has ended by then.
  w.planner.Ended(w.Find("whole-1"), w.now);
  EXPECT_THAT(w.Run(), ElementsAre("start whole-2"));
}

TEST(Moves, WhatHasJustStartedOrEndsSoonStays) {
  FragmentedPair w(MovingPolicy(), false);
  w.now += minutes(5);  // less than `rest`
  w.Submit(w.Make("whole", Devices(8)));
  EXPECT_THAT(RunTwice(w), IsEmpty());
  w.now += minutes(6);
  EXPECT_THAT(w.Run(), ElementsAre("move a"));

  PlannerWorld soon(EightWay(2), MovingPolicy());
  for (const char* const id : {"a", "b"}) {
    Job job = WithCheckpoint(soon.Make(id, Devices(2)));
    job.estimate = minutes(50);
    soon.Submit(job);
    soon.Run();
  }
  soon.now += minutes(36);  // 14 minutes are left
  soon.Submit(soon.Make("whole", Devices(8)));
  EXPECT_THAT(RunTwice(soon), IsEmpty());
}

TEST(Moves, AJobThatEndsSoonAsJobsLikeItDidStays) {
  PlannerWorld w(EightWay(2), MovingPolicy());
  const auto submit = [&](const std::string& id, const std::string& application) {
    Job job = WithCheckpoint(w.Make(id, Devices(2)));
    job.application = application;
    job.user = "ada";
    job.estimate = hours(20);
    w.Submit(job);
    w.Run();
  };
  for (int i = 0; i < 400; ++i) {
    submit("earlier", "train");
    w.now += minutes(60);
    w.planner.Ended(w.Find("earlier"), w.now);
  }
  submit("a", "train");
  submit("b", "train");
  w.now += minutes(58);
  w.Submit(w.Make("whole", Devices(8)));
  EXPECT_THAT(RunTwice(w), IsEmpty()) << "by what was learned, some minutes are left";
}

TEST(Moves, AMoveThatGainsLittleIsNotMade) {
  FragmentedPair w(MovingPolicy(), false);
  // It holds the other node, and ends in eight minutes.
  w.now += hours(1);
  Job small = w.Make("small", Devices(6));
  small.estimate = minutes(8);
  w.Submit(small);
  w.Run();
  w.Submit(w.Make("six", Devices(6), 2));
  EXPECT_THAT(RunTwice(w), IsEmpty());
  EXPECT_EQ(w.WhyWaits("six"), "reserved");
}

TEST(Moves, AReplicaIsReplacedByAnotherJobAtTheNewPlace) {
  FragmentedPair w(MovingPolicy(), true);
  w.now += minutes(30);
  w.Submit(w.Make("whole", Devices(8)));
  ASSERT_THAT(RunTwice(w), ElementsAre("move a"));
  const MemberAt to = w.plan.actions.front().members.front();
  const JobIndex next = w.planner.HandOver(w.Find("a"), AsReplica(w.Make("a2", Devices(2))), w.now);
  EXPECT_EQ(w.planner.jobs()[next].phase, Phase::kRunning);
  EXPECT_THAT(w.NodesOf("a2"), ElementsAre(to.holding.node));
  EXPECT_EQ(w.NodesOf("a").size(), 1u) << "it holds its old place until it ends";
  EXPECT_EQ(w.planner.state().Check(), "");
  // A planner that is made from the snapshot goes on with it.
  const auto text = io::WriteSnapshot(w.planner.TakeSnapshot(w.now));
  const auto read = io::ReadSnapshot(text, "snapshot");
  ASSERT_TRUE(read.value) << text;
  Rng rng(1);
  EXPECT_TRUE(MakePlan(*read.value, MovingPolicy(), w.now, rng).actions.empty());
  w.now += minutes(5);
  EXPECT_THAT(w.Run(), IsEmpty()) << "the places are kept for the job that waits";
  EXPECT_EQ(w.WhyWaits("whole"), "reserved");
  w.planner.Ended(w.Find("a"), w.now);
  EXPECT_THAT(w.Run(), ElementsAre("start whole"));
  w.now += minutes(5);
  w.Submit(w.Make("second", Devices(8)));
  EXPECT_THAT(RunTwice(w), IsEmpty()) << "what has moved stays for a time";
}

TEST(Moves, AReplicaWithALicenceStaysSinceTwoWouldNeedIt) {
  Cluster cluster = EightWay(2);
  cluster.resources = {{.name = "seat", .count = 2}};
  PlannerWorld w(cluster, MovingPolicy());
  for (const char* const id : {"a", "b"}) {
    Job job = AsReplica(w.Make(id, Devices(2)));
    job.resources = {{.name = "seat", .count = 1}};
    w.Submit(job);
    w.Run();
  }
  w.now += minutes(30);
  w.Submit(w.Make("whole", Devices(8)));
  EXPECT_THAT(RunTwice(w), IsEmpty());
  EXPECT_EQ(w.planner.resources().held("seat"), 2u);
}

// Lines of batches: each job may take their devices back.
Job AsFiller(Job job) {
  job.work = WorkClass::kBatch;
  job.priority = kFillerPriority;
  job.estimate.reset();
  return job;
}

TEST(Moves, WhatOnlyFillsStopsWhileOthersMove) {
  FragmentedPair w(MovingPolicy(), false);
  for (const char* const id : {"fills-a", "fills-b"}) {
    w.Submit(AsFiller(w.Make(id, Devices(4))));
    w.Run();
  }
  ASSERT_NE(w.NodesOf("fills-a"), w.NodesOf("fills-b"));
  w.now += minutes(30);
  w.Submit(w.Make("whole", Devices(8)));
  const std::vector<std::string> did = RunTwice(w);
  ASSERT_THAT(did, UnorderedElementsAre(StartsWith("move "), StartsWith("preempt fills-")));
  const auto moved = std::ranges::find(w.plan.actions, ActionKind::kMove, &Action::kind);
  const auto stopped = std::ranges::find(w.plan.actions, ActionKind::kPreempt, &Action::kind);
  EXPECT_THAT(stopped->why.text, HasSubstr("makes room for whole"));
  EXPECT_EQ(w.planner.state().Check(), "");
  w.planner.Moved(w.Find(moved->job), w.now);
  w.planner.Ended(w.Find(stopped->job), w.now);
  EXPECT_THAT(w.Run(), ElementsAre("start whole"));
  EXPECT_EQ(w.planner.state().Check(), "");
}

TEST(Moves, WhatOnlyFillsIsStoppedByAnyJobWhateverTheQueuesDeserve) {
  for (const bool by_priority : {true, false}) {
    Policy policy = MovingPolicy(0);
    policy.preemption = {.by_priority = by_priority, .reclaim = false};
    PlannerWorld w(
        EightWay(1), policy,
        {{.name = "serving", .parent = "", .deserved = {{"*", 8'000}}}, {.name = "research", .parent = ""}});
    Job filler = AsFiller(w.Make("fills", Devices(4)));
    filler.queue = "serving";
    w.Submit(filler);
    Job other = w.Make("other", Devices(4));
    other.queue = "serving";
    other.preemptible = true;
    w.Submit(other);
    w.Run();
    Job waiting = w.Make("waiting", Devices(4));
    waiting.queue = "research";
    w.Submit(waiting);
    EXPECT_THAT(RunTwice(w), IsEmpty());
    EXPECT_EQ(w.planner.jobs()[w.Find("fills")].phase, Phase::kStopping) << by_priority;
    EXPECT_EQ(w.planner.jobs()[w.Find("other")].phase, Phase::kRunning) << by_priority;
  }
}

TEST(Moves, AMoveThatFailsLeavesTheOldPlaceAsItWas) {
  for (const bool handed_over : {false, true}) {
    FragmentedPair w(MovingPolicy(), true);
    const std::vector<NodeId> before = w.NodesOf("a");
    w.now += minutes(30);
    w.Submit(w.Make("whole", Devices(8)));
    ASSERT_THAT(RunTwice(w), ElementsAre("move a"));
    if (handed_over) {
      const JobIndex next = w.planner.HandOver(w.Find("a"), AsReplica(w.Make("a2", Devices(2))), w.now);
      w.planner.Withdraw(next, w.now);
    }
    w.planner.Unmoved(w.Find("a"), w.now);
    EXPECT_EQ(w.NodesOf("a"), before);
    EXPECT_TRUE(w.planner.jobs()[w.Find("a")].leaving.empty());
    EXPECT_EQ(w.planner.state().Check(), "");
    EXPECT_THAT(RunTwice(w), ElementsAre("move b")) << "another one may move instead";
  }
}

TEST(Moves, OfAGangOnlyTheMembersInTheWayMove) {
  PlannerWorld w(EightWay(3, 3), MovingPolicy());
  Job gang = WithCheckpoint(w.Make("gang", Devices(2), 2));
  gang.anti_affinity = true;
  gang.estimate = hours(20);
  w.Submit(gang);
  w.Submit(WithCheckpoint(w.Make("c", Devices(4))));
  w.Run();
  ASSERT_EQ(w.planner.state().totals().fragmented_nodes, 3u);
  w.now += minutes(11);
  Job whole = w.Make("whole", Devices(8));
  w.Submit(whole);
  const std::vector<std::string> did = RunTwice(w);
  ASSERT_EQ(did.size(), 1u);
  EXPECT_EQ(w.plan.actions.front().members.size(), 1u);
  w.planner.Moved(w.Find(w.plan.actions.front().job), w.now);
  EXPECT_THAT(w.Run(), ElementsAre("start whole"));
}

TEST(Moves, WorkLeavesADeviceWithAFaultAlsoOnTheSameNode) {
  PlannerWorld w(EightWay(1), MovingPolicy());
  w.Submit(AsReplica(w.Make("replica", Devices(2))));
  w.Submit(w.Make("keeps", Devices(1)));  // it has no checkpoint
  w.Run();
  const auto devices_of = [&](const char* id) {
    uint32_t devices = 0;
    for (const MemberId m : w.planner.state().of(w.Find(id)))
      devices |= w.planner.state().member(m).holding.devices;
    return devices;
  };
  const uint32_t of_replica = devices_of("replica");
  const uint32_t faulty = (of_replica & ~(of_replica - 1)) | devices_of("keeps");
  w.now += minutes(1);
  w.planner.UpdateNode(0, Health::kHealthy, faulty, {}, w.now);
  EXPECT_THAT(w.Run(), IsEmpty());
  w.planner.UpdateEmptied(0, faulty, w.now);
  EXPECT_THAT(w.Run(), ElementsAre("move replica"));
  EXPECT_EQ(w.plan.actions.front().why.code, "device-fault");
  EXPECT_THAT(w.plan.actions.front().why.text, HasSubstr("of node-0000, which has a fault"));
  const uint32_t to = w.plan.actions.front().members.front().holding.devices;
  EXPECT_EQ(to & (faulty | of_replica), 0u) << "old and new places are held together";
  w.planner.HandOver(w.Find("replica"), AsReplica(w.Make("next", Devices(2))), w.now);
  w.planner.Ended(w.Find("replica"), w.now);
  w.now += minutes(1);
  EXPECT_THAT(w.Run(), IsEmpty());
  EXPECT_TRUE(w.planner.NextDue().has_value());
}

TEST(Moves, AGangComesTogetherOnItsLeaf) {
  Policy policy = MovingPolicy();
  policy.placement = "binpack";
  PlannerWorld w(EightWay(4, 2), policy);
  std::vector<std::string> others;
  for (int i = 0; i < 6; ++i) {
    others.push_back("other-" + std::to_string(i));
    w.Submit(w.Make(others.back(), Devices(4)));
  }
  w.Run();
  // One half of a node is left on each leaf.
  const auto leaf_of = [&](const std::string& id) { return w.NodesOf(id).front() / 2; };
  w.Submit(w.Make("seventh", Devices(4)));
  w.Submit(w.Make("eighth", Devices(4)));
  w.Run();
  ASSERT_EQ(leaf_of("seventh"), leaf_of("eighth"));
  const auto elsewhere =
      std::ranges::find_if(others, [&](const std::string& id) { return leaf_of(id) != leaf_of("seventh"); });
  w.planner.Ended(w.Find("seventh"), w.now);
  w.planner.Ended(w.Find(*elsewhere), w.now);
  Job gang = WithCheckpoint(w.Make("gang", Devices(4), 2));
  gang.topology = {.level = "leaf"};
  gang.estimate = hours(20);
  w.Submit(gang);
  ASSERT_THAT(w.Run(), ElementsAre("start gang"));
  ASSERT_NE(w.NodesOf("gang")[0] / 2, w.NodesOf("gang")[1] / 2);
  w.now += minutes(20);
  EXPECT_THAT(w.Run(), IsEmpty()) << "there is no room";
  w.planner.Ended(w.Find("eighth"), w.now);
  EXPECT_THAT(w.Run(), ElementsAre("move gang"));
  EXPECT_EQ(w.plan.actions.front().why.code, "comes-together");
  EXPECT_EQ(w.plan.actions.front().members.size(), 1u);
  w.planner.Moved(w.Find("gang"), w.now);
  EXPECT_EQ(w.NodesOf("gang")[0] / 2, w.NodesOf("gang")[1] / 2);
}

}  // namespace
}  // namespace scheduler
