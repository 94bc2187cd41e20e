// Countable resources: held by a job as a whole, kept for the first that waits, counted in what-ifs and snapshots.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "scheduler/io/explanation_text.h"
#include "scheduler/io/snapshot_json.h"
#include "scheduler/planner.h"
#include "tests/unit/scheduler/clusters.h"
#include "tests/unit/scheduler/planner_world.h"

namespace scheduler {
namespace {

using namespace testing;
using std::chrono::hours;
using std::chrono::minutes;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Cluster WithLicences(uint32_t count, int nodes = 4) {
  Cluster cluster = EightWay(nodes);
  cluster.resources = {{"matlab", count}};
  return cluster;
}

Job Licensed(PlannerWorld& world, const std::string& id, uint32_t licences,
             conf::Duration estimate = hours(1)) {
  Job job = world.Make(id, Devices(1));
  job.resources = {{"matlab", licences}};
  job.estimate = estimate;
  return job;
}

TEST(PlannerResources, AreHeldByTheWholeJobUntilItHasEnded) {
  PlannerWorld world(WithLicences(2));
  Job gang = world.Make("gang", Devices(8), 2);
  gang.resources = {{"matlab", 1}};
  world.Submit(gang);
  world.Submit(Licensed(world, "a", 1));
  world.Submit(Licensed(world, "b", 1));
  EXPECT_THAT(world.Run(), ElementsAre("start gang", "start a"));
  EXPECT_EQ(world.WhyWaits("b"), "resource");
  EXPECT_EQ(world.planner.resources().held("matlab"), 2u);
  world.planner.Ended(world.Find("gang"), world.now);
  EXPECT_THAT(world.Run(), ElementsAre("start b"));
  world.planner.Ended(world.Find("a"), world.now);
  world.planner.Ended(world.Find("b"), world.now);
  EXPECT_EQ(world.planner.resources().held("matlab"), 0u);
}

TEST(PlannerResources, AJobThatIsToldToStopHoldsThemUntilItHas) {
  PlannerWorld world(WithLicences(1, 1));
  Job low = Licensed(world, "low", 1);
  low.roles[0].ask = Devices(8);
  low.checkpoint.interval = minutes(10);
  world.Submit(low);
  world.Run();
  Job high = world.Make("high", Devices(8));
  high.priority = 10;
  world.Submit(high);
  EXPECT_THAT(world.Run(), ElementsAre("preempt low"));
  EXPECT_EQ(world.planner.resources().free("matlab"), 0u);
  world.planner.Stopped(world.Find("low"), world.now);
  EXPECT_EQ(world.planner.resources().free("matlab"), 1u);
}

TEST(PlannerResources, AreKeptForTheFirstThatWaitsUnlessOthersEndBefore) {
  PlannerWorld world(WithLicences(4));
  world.Submit(Licensed(world, "runs", 2, hours(2)));
  world.Run();
  world.Submit(Licensed(world, "large", 4));
  world.Submit(Licensed(world, "long", 1, hours(3)));
  world.Submit(Licensed(world, "short", 1, hours(1)));
  EXPECT_THAT(world.Run(), ElementsAre("start short"));
  EXPECT_EQ(world.WhyWaits("large"), "resource");
  EXPECT_EQ(world.WhyWaits("long"), "resource-kept");
  world.planner.Ended(world.Find("runs"), world.now);
  EXPECT_THAT(world.Run(), IsEmpty());  // three of four are free, and the fourth comes
  world.planner.Ended(world.Find("short"), world.now);
  EXPECT_THAT(world.Run(), ElementsAre("start large"));
}

TEST(PlannerResources, WhatIsSpareThenIsNotKept) {
  PlannerWorld world(WithLicences(4));
  world.Submit(Licensed(world, "runs", 3, hours(2)));
  world.Run();
  world.Submit(Licensed(world, "large", 2));
  world.Submit(Licensed(world, "long", 1, hours(9)));
  world.Submit(Licensed(world, "longer", 1, hours(9)));
  EXPECT_THAT(world.Run(), ElementsAre("start long"));
}

TEST(PlannerResources, BestEffortKeepsNothing) {
  Policy policy;
  policy.backfill.kind = Backfill::kBestEffort;
  PlannerWorld world(WithLicences(2), policy);
  world.Submit(Licensed(world, "runs", 1));
  world.Run();
  world.Submit(Licensed(world, "large", 2));
  world.Submit(Licensed(world, "small", 1, hours(9)));
  EXPECT_THAT(world.Run(), ElementsAre("start small"));
}

TEST(PlannerResources, AreKeptForAJobFromItsReservedStart) {
  PlannerWorld world(WithLicences(1, 3));
  Job runs = world.Make("runs", Devices(8), 2);
  runs.estimate = hours(2);
  world.Submit(runs);
  world.Run();
  Job both = world.Make("both", Devices(8), 2);
  both.resources = {{"matlab", 1}};
  world.Submit(both);
  Job longer = world.Make("longer", {});
  longer.resources = {{"matlab", 1}};
  longer.estimate = hours(3);
  world.Submit(longer);
  Job shorter = longer;
  shorter.id = "shorter";
  shorter.estimate = hours(1);
  world.Submit(shorter);
  EXPECT_THAT(world.Run(), ElementsAre("start shorter"));
  EXPECT_EQ(world.WhyWaits("both"), "reserved");
  EXPECT_EQ(world.WhyWaits("longer"), "resource-kept");
  world.planner.Ended(world.Find("shorter"), world.now);
  world.planner.Ended(world.Find("runs"), world.now);
  EXPECT_THAT(world.Run(), ElementsAre("start both"));
}

TEST(PlannerResources, NoNodesAreReservedForAJobThatWaitsForThem) {
  PlannerWorld world(WithLicences(1, 1));
  world.Submit(Licensed(world, "a", 1));
  world.Submit(Licensed(world, "b", 1));
  Job other = world.Make("other", Devices(7));
  other.estimate = hours(9);
  world.Submit(other);
  EXPECT_THAT(world.Run(), ElementsAre("start a", "start other"));
  EXPECT_THAT(world.plan.reserved, IsEmpty());
}

TEST(PlannerResources, NoPlacesAreKeptForAJobThatWaitsForThemBesideItsQuota) {
  PlannerWorld world(WithLicences(1, 1), {}, {{.name = "default", .parent = {}, .limit = {{"*", 8'000}}}});
  Job holder = world.Make("holder", {});
  holder.resources = {{"matlab", 1}};
  holder.estimate = hours(9);
  world.Submit(holder);
  Job first = world.Make("first", Devices(8));
  first.limit = hours(1);
  world.Submit(first);
  EXPECT_THAT(world.Run(), ElementsAre("start holder", "start first"));
  world.now += hours(1);
  Job high = world.Make("high", Devices(8));
  high.priority = 10;
  high.resources = {{"matlab", 1}};
  world.Submit(high);
  EXPECT_THAT(world.Run(), ElementsAre("stop first"));
  EXPECT_THAT(world.plan.reserved, IsEmpty());
  world.planner.Stopped(world.Find("first"), world.now);
  world.Submit(world.Make("other", Devices(8)));
  EXPECT_THAT(world.Run(), ElementsAre("start other"));
  EXPECT_EQ(world.WhyWaits("high"), "resource");
}

TEST(PlannerResources, MoreThanThereIsNeverStarts) {
  PlannerWorld world(WithLicences(2));
  const JobIndex job = world.Submit(Licensed(world, "a", 3));
  EXPECT_THAT(world.Run(), IsEmpty());
  EXPECT_EQ(world.WhyWaits("a"), "impossible");
  EXPECT_EQ(world.planner.Explain(job, world.now).cause, WaitCause::kNeverFits);
}

TEST(PlannerResources, ExplainNamesTheResourceItsHoldersAndWhenItIsFree) {
  PlannerWorld world(WithLicences(2));
  world.Submit(Licensed(world, "runs", 2, hours(2)));
  world.Run();
  const JobIndex job = world.Submit(Licensed(world, "waits", 1));
  world.Run();
  const Explanation why = world.planner.Explain(job, world.now);
  EXPECT_EQ(why.cause, WaitCause::kResource);
  ASSERT_EQ(why.resources.size(), 1u);
  EXPECT_THAT(why.resources[0].held_by, ElementsAre("runs"));
  ASSERT_TRUE(why.resources[0].release.at.has_value());
  EXPECT_EQ(*why.resources[0].release.at, world.now + hours(2));
  const std::vector<std::string> sentences = io::InWords(why);
  EXPECT_EQ(sentences.front(), "Job waits waits for the resource matlab.");
  EXPECT_THAT(sentences,
              Contains(HasSubstr("It asks for 1 of the resource matlab; 0 of 2 are free, runs holds the "
                                 "others; it may have them when job runs has ended, expected in 2 h 0 min")));
}

TEST(PlannerResources, ASnapshotFileReplaysTheDecision) {
  PlannerWorld world(WithLicences(3));
  world.Submit(Licensed(world, "runs", 2, hours(2)));
  world.Run();
  world.Submit(Licensed(world, "large", 3));
  world.Submit(Licensed(world, "small", 1, minutes(30)));
  const std::string file = io::WriteSnapshot(world.planner.TakeSnapshot(world.now));
  const auto read = io::ReadSnapshot(file, "snapshot.json");
  ASSERT_TRUE(read.value.has_value()) << ToString(read.problems.front());
  EXPECT_EQ(io::WriteSnapshot(*read.value), file);
  Rng rng = world.rng;
  const Plan replayed = MakePlan(*read.value, Policy(), world.now, rng);
  EXPECT_THAT(world.Run(), ElementsAre("start small"));
  ASSERT_EQ(replayed.actions.size(), 1u);
  EXPECT_EQ(replayed.actions[0].job, "small");
  ASSERT_EQ(replayed.waiting.size(), world.plan.waiting.size());
  for (size_t i = 0; i < replayed.waiting.size(); ++i) {
    EXPECT_EQ(replayed.waiting[i].first, world.plan.waiting[i].first);
    EXPECT_EQ(replayed.waiting[i].second.text, world.plan.waiting[i].second.text);
  }
}

// Zones a and b by turns, in one leaf.
Cluster TwoZones(int nodes) {
  Cluster cluster = EightWay(nodes);
  for (size_t n = 0; n < cluster.nodes.size(); ++n) cluster.nodes[n].labels["zone"] = n % 2 == 0 ? "a" : "b";
  return cluster;
}

TEST(PlannerSpread, OverALabelSharesMembersOutToItsValues) {
  PlannerWorld world(TwoZones(4));
  Job job = world.Make("spread", Devices(2), 4);
  job.spread = true;
  job.spread_over = "zone";
  world.Submit(job);
  world.Run();
  EXPECT_THAT(world.NodesOf("spread"), ElementsAre(0, 1, 2, 3));
  size_t in_a = 0;
  for (const NodeId node : world.NodesOf("spread"))
    in_a += world.cluster.nodes[node].labels.at("zone") == "a";
  EXPECT_EQ(in_a, 2u);
}

TEST(PlannerSpread, ElementsOfAnArrayAreSharedOutToZones) {
  PlannerWorld world(TwoZones(2));
  for (const char* const id : {"e.0", "e.1", "e.2", "e.3"}) {
    Job job = world.Make(id, Devices(1));
    job.array = "e";
    job.spread = true;
    job.spread_over = "zone";
    world.Submit(job);
  }
  world.Run();
  size_t in_a = 0;
  for (const char* const id : {"e.0", "e.1", "e.2", "e.3"}) in_a += world.NodesOf(id).front() == 0;
  EXPECT_EQ(in_a, 2u);
}

TEST(PlannerSpread, AZoneThatIsFullIsNoObstacle) {
  Cluster cluster = TwoZones(4);
  cluster.nodes[1].labels["zone"] = cluster.nodes[3].labels["zone"] = "a";
  cluster.nodes[3].labels.erase("zone");
  PlannerWorld world(cluster);
  Job job = world.Make("spread", Devices(8), 4);
  job.spread = true;
  job.spread_over = "zone";
  world.Submit(job);
  EXPECT_THAT(world.Run(), ElementsAre("start spread"));
}

// max_running of an element counts elements, not its members.
TEST(PlannerSpread, AGangThatIsAnElementOfAnArrayStartsWhole) {
  PlannerWorld world(EightWay(4));
  for (const char* const id : {"g.0", "g.1"}) {
    Job job = world.Make(id, Devices(8), 3);
    job.array = "g";
    job.max_running = 1;
    world.Submit(job);
  }
  EXPECT_THAT(world.Run(), ElementsAre("start g.0"));
  EXPECT_EQ(world.NodesOf("g.0").size(), 3u);
  EXPECT_EQ(world.WhyWaits("g.1"), "array");
}

}  // namespace
}  // namespace scheduler
