#include "scheduler/cycle/victim_search.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/scheduler/clusters.h"
#include "tests/unit/scheduler/cycle/preempt_world.h"

namespace scheduler {
namespace {

using testing::At;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::PreemptWorld;

std::vector<JobIndex> JobsOf(const std::vector<Victim>& victims) {
  std::vector<JobIndex> jobs;
  for (const Victim& victim : victims) jobs.push_back(victim.job);
  return jobs;
}

const std::vector<Queue> kTwoHalves = {{.name = "a", .parent = "", .deserved = {{"*", 8'000}}},
                                       {.name = "b", .parent = "", .deserved = {{"*", 8'000}}}};

TEST(Preempt, StopsTheLeastCostlyOfLowerPriority) {
  PreemptWorld world(testing::EightWay(2), {});
  const JobIndex old = world.Submit(PreemptWorld::Asks("", 1, 8));
  ASSERT_TRUE(world.Start(old));
  world.Advance(1000);
  const JobIndex young = world.Submit(PreemptWorld::Asks("", 1, 8));
  ASSERT_TRUE(world.Start(young));
  world.Advance(10);
  const JobIndex peer = world.Submit(PreemptWorld::Asks("", 1, 8, 0));
  EXPECT_TRUE(world.PreemptWithCause(peer, PreemptMode::kPriority).empty());
  const JobIndex urgent = world.Submit(PreemptWorld::Asks("", 1, 4, 5));
  const std::vector<Victim> victims = world.PreemptWithCause(urgent, PreemptMode::kPriority);
  ASSERT_THAT(JobsOf(victims), ElementsAre(young));
  EXPECT_EQ(victims[0].cost, 80);
  EXPECT_EQ(victims[0].why.code, "preempted");
  EXPECT_THAT(victims[0].why.text,
              HasSubstr("\"job-3\" of priority 5 needs the room, this job has priority 0; 80 GPU-seconds"));
}

TEST(Preempt, OneLargeVictimIsTakenWhereManySmallCostMore) {
  PreemptWorld world(testing::EightWay(1), {});
  const JobIndex large = world.Submit(PreemptWorld::Asks("", 1, 4));
  ASSERT_TRUE(world.Start(large));
  for (int i = 0; i < 4; ++i) {
    Job job = PreemptWorld::Asks("", 1, 1);
    job.checkpoint.restart = std::chrono::seconds(100);
    ASSERT_TRUE(world.Start(world.Submit(job)));
  }
  world.Advance(10);
  const JobIndex urgent = world.Submit(PreemptWorld::Asks("", 1, 4, 5));
  EXPECT_THAT(JobsOf(world.PreemptWithCause(urgent, PreemptMode::kPriority)), ElementsAre(large));
}

TEST(Preempt, AJobThatMayNotBeStoppedStays) {
  PreemptWorld world(testing::EightWay(1), {});
  Job job = PreemptWorld::Asks("", 1, 8);
  job.preemptible = false;
  ASSERT_TRUE(world.Start(world.Submit(job)));
  const JobIndex urgent = world.Submit(PreemptWorld::Asks("", 1, 4, 5));
  EXPECT_TRUE(world.PreemptWithCause(urgent, PreemptMode::kPriority).empty());
}

TEST(Preempt, NeverStopsWorkClassesThatTheJobSpares) {
  PreemptWorld world(testing::EightWay(2), {});
  Job batch = PreemptWorld::Asks("", 1, 8);
  batch.work = WorkClass::kBatch;
  ASSERT_TRUE(world.Start(world.Submit(batch)));
  const JobIndex training = world.Submit(PreemptWorld::Asks("", 1, 8));
  ASSERT_TRUE(world.Start(training));
  world.Advance(1000);
  Job urgent = PreemptWorld::Asks("", 1, 8, 5);
  urgent.never_preempts = {WorkClass::kBatch, WorkClass::kTraining};
  for (const PreemptMode mode : {PreemptMode::kPriority, PreemptMode::kReclaim})
    EXPECT_TRUE(world.PreemptWithCause(world.Submit(urgent), mode).empty());
  urgent.never_preempts = {WorkClass::kBatch};
  EXPECT_THAT(JobsOf(world.PreemptWithCause(world.Submit(urgent), PreemptMode::kPriority)),
              ElementsAre(training));
}

TEST(Preempt, MakesRoomInItsQueuesLimit) {
  PreemptWorld world(testing::EightWay(4), {{.name = "q", .parent = "", .limit = {{"*", 8'000}}}});
  ASSERT_TRUE(world.Start(world.Submit(PreemptWorld::Asks("q", 1, 8))));
  const JobIndex urgent = world.Submit(PreemptWorld::Asks("q", 1, 4, 5));
  EXPECT_EQ(world.PreemptWithCause(urgent, PreemptMode::kPriority).size(), 1u);
  EXPECT_EQ(world.Held("q"), 4'000);
}

TEST(Preempt, AnElasticGangShrinksBeforeWholeJobsStop) {
  PreemptWorld world(testing::EightWay(2), {});
  Job elastic = PreemptWorld::Asks("", 4, 4);
  elastic.roles[0].min_count = 2;
  const JobIndex gang = world.Submit(elastic);
  ASSERT_TRUE(world.Start(gang));
  world.Advance(100);
  const JobIndex urgent = world.Submit(PreemptWorld::Asks("", 1, 4, 5));
  const std::vector<Victim> victims = world.PreemptWithCause(urgent, PreemptMode::kPriority);
  ASSERT_THAT(JobsOf(victims), ElementsAre(gang));
  EXPECT_FALSE(victims[0].whole);
  EXPECT_EQ(victims[0].members.size(), 1u);
  EXPECT_EQ(world.state_.of(gang).size(), 3u);
  const JobIndex second = world.Submit(PreemptWorld::Asks("", 2, 4, 5));
  EXPECT_TRUE(world.PreemptWithCause(second, PreemptMode::kPriority)[0].whole)
      << "one may still leave, two are needed";
}

TEST(Preempt, AGangTakesWholeNodesWhoseVictimsCostLeast) {
  PreemptWorld world(testing::EightWay(4), {});
  std::vector<JobIndex> jobs;
  for (int i = 0; i < 32; ++i) {
    const JobIndex job = world.Submit(PreemptWorld::Asks("", 1, 1));
    ASSERT_TRUE(world.Start(job));
    jobs.push_back(job);
  }
  world.Advance(1000);
  const auto node_of = [&](JobIndex j) { return world.state_.member(world.state_.of(j)[0]).holding.node; };
  for (const JobIndex job : jobs) {  // on every node half cost much, but for nodes 1 and 2
    const bool cheap = node_of(job) == 1 || node_of(job) == 2;
    if (cheap || job % 2 == 0) world.jobs_[job].checkpointed = At(1'000'990);
  }
  const JobIndex gang = world.Submit(PreemptWorld::Asks("", 2, 8, 5));
  const std::vector<Victim> victims = world.PreemptWithCause(gang, PreemptMode::kPriority);
  EXPECT_EQ(victims.size(), 16u);
  for (const Victim& victim : victims) {
    EXPECT_THAT(victim.members[0].holding.node, ::testing::AnyOf(1u, 2u));
  }
}

TEST(Preempt, NeverStopsMoreJobsThanThePolicyAllows) {
  PreemptWorld world(testing::EightWay(1), {}, {.max_victims = 3});
  for (int i = 0; i < 8; ++i) ASSERT_TRUE(world.Start(world.Submit(PreemptWorld::Asks("", 1, 1))));
  EXPECT_TRUE(world.Preempt(world.Submit(PreemptWorld::Asks("", 1, 4, 5)), PreemptMode::kPriority).empty());
  EXPECT_EQ(world.Preempt(world.Submit(PreemptWorld::Asks("", 1, 3, 5)), PreemptMode::kPriority).size(), 3u);
}

TEST(Preempt, ARequiredDomainIsClearedInOnePlace) {
  PreemptWorld world(testing::EightWay(8, 2), {});
  for (int i = 0; i < 8; ++i) ASSERT_TRUE(world.Start(world.Submit(PreemptWorld::Asks("", 1, 8))));
  world.Advance(100);
  Job gang = PreemptWorld::Asks("", 2, 8, 5);
  gang.topology = {.level = "leaf", .required = true};
  const JobIndex job = world.Submit(gang);
  const std::vector<Victim> victims = world.Preempt(job, PreemptMode::kPriority);
  ASSERT_EQ(victims.size(), 2u);
  const auto leaf = [&](const Victim& v) { return world.cluster_.nodes[v.members[0].holding.node].domain; };
  EXPECT_EQ(leaf(victims[0]), leaf(victims[1]));
}

TEST(Reclaim, TakesOnlyDevicesAboveOthersDeservedShare) {
  PreemptWorld world(testing::EightWay(2), kTwoHalves);
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(world.Start(world.Submit(PreemptWorld::Asks("b", 1, 4))));
  const JobIndex job = world.Submit(PreemptWorld::Asks("a", 1, 8));
  const std::vector<Victim> victims = world.PreemptWithCause(job, PreemptMode::kReclaim);
  EXPECT_EQ(victims.size(), 2u);
  EXPECT_EQ(victims[0].why.code, "reclaimed");
  EXPECT_EQ(world.Held("a"), 8'000);
  EXPECT_EQ(world.Held("b"), 8'000);
  EXPECT_TRUE(world.PreemptWithCause(victims[0].job, PreemptMode::kReclaim).empty())
      << "b has what it deserves";
  EXPECT_TRUE(
      world.PreemptWithCause(world.Submit(PreemptWorld::Asks("a", 1, 1)), PreemptMode::kReclaim).empty())
      << "a would be over";
}

TEST(Reclaim, LeavesTheVictimQueueNoWorseOffThanItsOwn) {
  PreemptWorld world(testing::EightWay(2), kTwoHalves);
  ASSERT_TRUE(world.Start(world.Submit(PreemptWorld::Asks("b", 2, 8))));  // one gang of 16: all or nothing
  EXPECT_TRUE(world.Preempt(world.Submit(PreemptWorld::Asks("a", 1, 4)), PreemptMode::kReclaim).empty());
  for (const uint16_t devices : {uint16_t{4}, uint16_t{5}}) {  // one stopped leaves b five of its eight
    PreemptWorld w(testing::EightWay(2), kTwoHalves);
    for (int i = 0; i < 2; ++i) ASSERT_TRUE(w.Start(w.Submit(PreemptWorld::Asks("b", 1, 5))));
    EXPECT_EQ(w.Preempt(w.Submit(PreemptWorld::Asks("a", 1, devices)), PreemptMode::kReclaim).empty(),
              devices > 4);
  }
}

TEST(Preempt, HigherPriorityDoesNotTakeAnotherQueuesDeservedShare) {
  PreemptWorld world(testing::EightWay(2), kTwoHalves);
  ASSERT_TRUE(world.Start(world.Submit(PreemptWorld::Asks("a", 1, 8))));
  ASSERT_TRUE(world.Start(world.Submit(PreemptWorld::Asks("b", 1, 8))));
  EXPECT_TRUE(world.Preempt(world.Submit(PreemptWorld::Asks("a", 2, 8, 9)), PreemptMode::kPriority).empty());
  EXPECT_EQ(world.Preempt(world.Submit(PreemptWorld::Asks("a", 1, 8, 9)), PreemptMode::kPriority).size(), 1u);
}

TEST(StopCost, AddsWorkSinceTheCheckpointSaveRestartAndServiceRisk) {
  JobEntry entry;
  entry.checkpointed = At(100);
  entry.job.checkpoint = {
      .interval = {}, .save = std::chrono::seconds(5), .restart = std::chrono::seconds(20)};
  EXPECT_EQ(StopCost(entry, 4'000, 4'000, true, At(200)), 4 * 125);
  EXPECT_EQ(StopCost(entry, 2'000, 4'000, false, At(200)), 2 * 25);
  entry.job.work = WorkClass::kInference;
  EXPECT_EQ(StopCost(entry, 4'000, 4'000, true, At(200)), 4 * 725);
  EXPECT_EQ(StopCost(entry, 1'000, 4'000, false, At(200)), 1 * 175);
}

}  // namespace
}  // namespace scheduler
