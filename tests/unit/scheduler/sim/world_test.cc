#include "scheduler/sim/world.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <string>

#include "scheduler/sim/workload.h"
#include "tests/unit/scheduler/clusters.h"

namespace scheduler::sim {
namespace {

using std::chrono::hours;
using std::chrono::minutes;
using testing::EightWay;

// A job that asks for devices only.
TraceJob JobOf(std::string id, conf::Duration submitted, conf::Duration run, uint32_t devices,
               std::string queue = "q") {
  TraceJob made;
  made.job.id = std::move(id);
  made.job.queue = std::move(queue);
  made.job.submitted = conf::TimePoint(submitted);
  made.job.roles = GangOf(devices, 8);
  made.job.estimate = run;
  made.run = run;
  return made;
}

Policy InOrder(Backfill backfill = Backfill::kFifo) {
  Policy policy;
  policy.order = {{"age", 1}};
  policy.placement = "e-binpack";
  policy.backfill.kind = backfill;
  return policy;
}

Report Simulate(const Cluster& cluster, const std::vector<TraceJob>& jobs, Policy policy = InOrder(),
                WorldOptions options = {}, std::vector<Queue> queues = {}) {
  if (queues.empty()) queues = QueuesOf(jobs);
  return World(cluster, std::move(queues), std::move(policy), jobs, std::move(options)).Run();
}

TEST(World, MeasuresTwoJobsInTurnAsByHand) {
  const Cluster cluster = EightWay(1);
  // Both want the whole node: b waits from 0 h to 2 h, and runs until 5 h.
  const Report report =
      Simulate(cluster, {JobOf("a", hours(0), hours(2), 8), JobOf("b", hours(0), hours(3), 8)});
  EXPECT_EQ(report.submitted, 2u);
  EXPECT_EQ(report.started, 2u);
  EXPECT_EQ(report.finished, 2u);
  EXPECT_EQ(report.unfinished, 0u);
  EXPECT_DOUBLE_EQ(report.hours, 5);
  EXPECT_DOUBLE_EQ(report.waits.mean_h, 1);
  EXPECT_DOUBLE_EQ(report.waits.max_h, 2);
  EXPECT_EQ(report.waits_by_size[0].jobs, 0u);
  EXPECT_EQ(report.waits_by_size[1].jobs, 2u);
  EXPECT_DOUBLE_EQ(report.jct_mean_h, 3.5);
  EXPECT_DOUBLE_EQ(report.slowdown_mean, (1 + 5.0 / 3) / 2);
  EXPECT_DOUBLE_EQ(report.useful_h, 8 * 5);
  EXPECT_EQ(report.lost_h, 0);
  ASSERT_EQ(report.samples.size(), 5u);
  EXPECT_EQ(report.saturated_hours, 2);
  EXPECT_DOUBLE_EQ(report.gar, 1);
  EXPECT_DOUBLE_EQ(report.sor_mean, 1);
  EXPECT_TRUE(report.samples[1].saturated);
  EXPECT_FALSE(report.samples[2].saturated);
}

// Reserved starts of a world with exact estimates: the earliest that each job was promised, and its start.
struct Kept {
  std::map<std::string, conf::TimePoint> promised;
  std::map<std::string, conf::TimePoint> started;
};

Kept PromisesOf(uint64_t seed) {
  const Cluster cluster = EightWay(4, 2);
  Rng rng(seed);
  std::vector<TraceJob> jobs;
  conf::Duration at{};
  for (int i = 0; i < 60; ++i) {
    at += minutes(rng.Uniform(25));
    const uint32_t devices = std::array<uint32_t, 5>{1, 4, 8, 16, 32}[rng.Uniform(5)];
    jobs.push_back(JobOf(fmt::format("j{}", i), at, minutes(10 + rng.Uniform(170)), devices));
  }
  Policy policy = InOrder(Backfill::kConservative);
  policy.backfill.depth = 64;
  Kept kept;
  WorldOptions options;
  options.planned = [&](conf::TimePoint now, const Plan& plan, const Planner&) {
    for (const Action& action : plan.actions) {
      if (action.kind == ActionKind::kStart) kept.started.emplace(action.job, now);
    }
    for (const Reserved& reserved : plan.reserved) {
      const auto [first, fresh] = kept.promised.emplace(reserved.job, reserved.start);
      if (!fresh) first->second = std::min(first->second, reserved.start);
    }
  };
  Simulate(cluster, jobs, std::move(policy), std::move(options));
  return kept;
}

TEST(World, NoJobStartsLaterThanConservativeBackfillPromised) {
  size_t promises = 0;
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    const Kept kept = PromisesOf(seed);
    EXPECT_EQ(kept.started.size(), 60u);
    promises += kept.promised.size();
    for (const auto& [job, start] : kept.promised) {
      EXPECT_LE(kept.started.at(job), start) << "job " << job << " of seed " << seed;
    }
  }
  EXPECT_GT(promises, 200u);
}

TEST(World, SamplesHourlyOccupancyAndFragmentation) {
  const Cluster cluster = EightWay(2);
  const Report report =
      Simulate(cluster, {JobOf("a", hours(0), minutes(90), 4), JobOf("b", hours(0), hours(3), 8)});
  ASSERT_EQ(report.samples.size(), 3u);
  EXPECT_DOUBLE_EQ(report.samples[0].gar, 12.0 / 16);
  EXPECT_DOUBLE_EQ(report.samples[0].sor, 12.0 / 16);
  EXPECT_DOUBLE_EQ(report.samples[0].gfr, 0.5);
  EXPECT_DOUBLE_EQ(report.samples[1].gar, 8.0 / 16);
  EXPECT_DOUBLE_EQ(report.samples[1].sor, 10.0 / 16);  // four for half of the hour
  EXPECT_DOUBLE_EQ(report.samples[1].gfr, 0);
  EXPECT_EQ(report.samples[1].running, 1u);
  EXPECT_EQ(report.saturated_hours, 0);
  EXPECT_DOUBLE_EQ(report.sor_mean, (4 * 1.5 + 8 * 3) / (16 * 3.0));
  ASSERT_EQ(report.heat.rows, 2u);
  EXPECT_FLOAT_EQ(report.heat.cells[0] + report.heat.cells[1], 1.5f);
}

TEST(World, RecordsTheDistanceOfEachGangOverTime) {
  const Cluster cluster = EightWay(4, 2);
  // One node of each leaf is left for the first gang; the second finds all of them free.
  const Report report =
      Simulate(cluster, {JobOf("a", hours(0), hours(2), 8), JobOf("b", hours(0), hours(1), 8),
                         JobOf("c", hours(0), hours(2), 8), JobOf("far", hours(1), hours(1), 16),
                         JobOf("near", hours(3), hours(1), 16)});
  ASSERT_EQ(report.gangs.size(), 2u);
  EXPECT_DOUBLE_EQ(report.gangs[0].hour, 1);
  EXPECT_DOUBLE_EQ(report.gangs[0].devices, 16);
  EXPECT_GT(report.gangs[0].jtted, 1.05);
  EXPECT_DOUBLE_EQ(report.gangs[1].hour, 3);
  EXPECT_DOUBLE_EQ(report.gangs[1].devices, 16);
  EXPECT_DOUBLE_EQ(report.gangs[1].jtted, 1);
}

TEST(World, CountsEnergyOfIdleAndBusyDevices) {
  Cluster cluster = EightWay(1);
  cluster.types[0].idle_watts = 1000;
  // Two hours: the node, six idle devices at 70 W, two busy at 700 W.
  const Report report = Simulate(cluster, {JobOf("a", hours(0), hours(2), 2)});
  EXPECT_NEAR(report.energy_kwh, 2 * (1.0 + 6 * 0.07 + 2 * 0.7), 1e-9);
}

TEST(World, BackfillsUnderExactEstimatesWithoutDelayingTheFirstInLine) {
  const Cluster cluster = EightWay(2);
  // a holds one node until 4 h. b wants both. c fits beside a, and ends before b's start.
  const std::vector<TraceJob> jobs = {JobOf("a", hours(0), hours(4), 8), JobOf("b", minutes(1), hours(1), 16),
                                      JobOf("c", minutes(2), hours(3), 8)};
  const Report fifo = Simulate(cluster, jobs, InOrder(Backfill::kFifo));
  const Report easy = Simulate(cluster, jobs, InOrder(Backfill::kEasy));
  EXPECT_DOUBLE_EQ(fifo.hours, 8);
  EXPECT_DOUBLE_EQ(easy.hours, 5);
  EXPECT_DOUBLE_EQ(easy.waits.max_h, 239.0 / 60);  // b starts at 4 h under both
  EXPECT_DOUBLE_EQ(easy.waits.p50_h, 0);
}

TEST(World, PeriodicCheckpointsHoldTheJobUpAndCountAsOverhead) {
  const Cluster cluster = EightWay(1);
  TraceJob job = JobOf("a", hours(0), hours(4), 8);
  job.job.checkpoint = {.interval = hours(1), .save = minutes(6), .restart = minutes(30)};
  const Report report = Simulate(cluster, {job});
  // After 1, 2 and 3 hours of work; the fourth ends it.
  EXPECT_NEAR(report.hours, 4.3, 1e-9);
  EXPECT_NEAR(report.useful_h, 8 * 4, 1e-9);
  EXPECT_NEAR(report.saved_h, 8 * 0.3, 1e-9);
  EXPECT_EQ(report.restarted_h, 0);
  EXPECT_NEAR(report.goodput, 4 / 4.3, 1e-9);
  EXPECT_NEAR(report.jct_mean_h, 4.3, 1e-9);
}

TEST(World, ACheckpointThatAFaultInterruptsIsNotKept) {
  const Cluster cluster = EightWay(1, 1);
  TraceJob job = JobOf("a", hours(0), hours(4), 8);
  job.job.checkpoint = {.interval = hours(1), .save = minutes(6), .restart = hours(0)};
  WorldOptions options;
  options.repair = hours(1);
  // The second one is saved from 2.1 h to 2.2 h.
  for (const auto& [at, kept] : {std::pair(minutes(129), 1.0), std::pair(minutes(133), 2.0)}) {
    options.faults = {{.domain = 0, .at = at}};
    const Report report = Simulate(cluster, {job}, InOrder(), options);
    const double back = static_cast<double>(at.count()) / 60 + 1;
    EXPECT_NEAR(report.hours, back + (4 - kept) + 0.1 * (3 - kept), 1e-9);
    EXPECT_NEAR(report.useful_h, 8 * 4, 1e-9);
  }
}

TEST(World, ANodesFaultLosesTheWorkSinceTheLastCheckpoint) {
  const Cluster cluster = EightWay(1, 1);
  TraceJob job = JobOf("a", hours(0), hours(10), 8);
  job.job.checkpoint = {.interval = hours(2), .save = minutes(1), .restart = minutes(30)};
  WorldOptions options;
  options.faults = {{.domain = cluster.nodes[0].domain, .at = hours(5)}};
  options.repair = hours(3);
  const Report report = Simulate(cluster, {job}, InOrder(), options);
  // Two saves of a minute, then it fails at 5 h with 4 h kept; back at 8 h, half an hour of restoring, six of
  // work with two saves.
  EXPECT_EQ(report.finished, 1u);
  EXPECT_EQ(report.faults, 1u);
  EXPECT_EQ(report.restarts, 1u);
  EXPECT_NEAR(report.hours, 14.5 + 2.0 / 60, 1e-9);
  EXPECT_NEAR(report.lost_h, 8 * 58.0 / 60, 1e-9);
  EXPECT_NEAR(report.saved_h, 8 * 4.0 / 60, 1e-9);
  EXPECT_DOUBLE_EQ(report.restarted_h, 8 * 0.5);
  EXPECT_DOUBLE_EQ(report.useful_h, 8 * 10);
  EXPECT_DOUBLE_EQ(report.waits.max_h, 0);  // of the first start
}

// One leaf for each node: the fabric's domains count from it.
std::vector<DomainFault> FaultsOf(const Cluster& cluster, NodeId node, std::vector<conf::Duration> times) {
  std::vector<DomainFault> faults;
  for (const conf::Duration at : times) faults.push_back({.domain = cluster.nodes[node].domain, .at = at});
  return faults;
}

TEST(World, ANodeThatFailsAgainAndAgainIsQuarantined) {
  const Cluster cluster = EightWay(1, 1);
  WorldOptions options;
  options.repair = hours(1);
  options.quarantine = hours(48);
  options.faults = FaultsOf(cluster, 0, {hours(1), hours(3), hours(5)});
  Policy policy = InOrder();
  policy.faults = {
      .suspect_after = 1, .quarantine_after = 3, .window = hours(24), .recover_after = minutes(30)};
  TraceJob job = JobOf("a", hours(0), hours(4), 8);
  job.job.restart_budget = 10;
  const Report third = Simulate(cluster, {job}, policy, options);
  EXPECT_EQ(third.faults, 3u);
  EXPECT_EQ(third.quarantined, 1u);
  EXPECT_DOUBLE_EQ(third.hours, 5 + 48 + 4);

  policy.faults.window = minutes(150);  // the first is forgotten when the third comes
  const Report spread = Simulate(cluster, {job}, policy, options);
  EXPECT_EQ(spread.quarantined, 0u);
  EXPECT_DOUBLE_EQ(spread.hours, 5 + 1 + 4);
}

TEST(World, ARepairedNodeIsSuspectUntilItHasGoneLongEnoughWithoutAFault) {
  const Cluster cluster = EightWay(1, 1);
  WorldOptions options;
  options.repair = hours(1);
  options.faults = FaultsOf(cluster, 0, {hours(1)});
  Policy policy = InOrder();
  policy.faults.recover_after = hours(3);
  EXPECT_DOUBLE_EQ(Simulate(cluster, {JobOf("a", hours(0), hours(4), 8)}, policy, options).hours, 1 + 3 + 4);
  policy.faults.suspect_after = 2;
  EXPECT_DOUBLE_EQ(Simulate(cluster, {JobOf("a", hours(0), hours(4), 8)}, policy, options).hours, 1 + 1 + 4);
}

TEST(World, ANodeThatTheClusterTakesOutOfUseStaysOutAfterARepair) {
  Cluster cluster = EightWay(2, 1);
  cluster.nodes[0].health = Health::kDraining;
  WorldOptions options;
  options.repair = hours(1);
  options.faults = FaultsOf(cluster, 0, {hours(1)});
  const Report report = Simulate(
      cluster, {JobOf("a", hours(0), hours(9), 8), JobOf("b", hours(3), hours(1), 8)}, InOrder(), options);
  EXPECT_DOUBLE_EQ(report.hours, 10);
}

TEST(World, AJobWithoutCheckpointsRestartsAfterAFault) {
  const Cluster cluster = EightWay(1, 1);
  WorldOptions options;
  options.faults = {{.domain = 0, .at = hours(5)}};
  options.repair = hours(1);
  options.load = minutes(6);
  const Report report = Simulate(cluster, {JobOf("a", hours(0), hours(10), 8)}, InOrder(), options);
  EXPECT_DOUBLE_EQ(report.hours, 16.1);
  EXPECT_NEAR(report.lost_h, 8 * 4.9, 1e-9);
  EXPECT_NEAR(report.restarted_h, 8 * 0.2, 1e-9);
}

TEST(World, AGangContinuesWithAnotherNodeAfterAFailure) {
  const Cluster cluster = EightWay(3, 1);
  TraceJob job = JobOf("a", hours(0), hours(10), 16);
  job.job.checkpoint = {.interval = hours(1), .save = minutes(1), .restart = minutes(30)};
  WorldOptions options;
  options.faults = {{.domain = 0, .at = hours(2)}, {.domain = 1, .at = hours(2)}};
  options.repair = hours(100);
  const Report one_left = Simulate(cluster, {job}, InOrder(), options);
  EXPECT_EQ(one_left.restarts, 1u);
  options.faults.resize(1);
  const Report hot_swap = Simulate(cluster, {job}, InOrder(), options);
  // An hour is kept; the others are worked with eight saves of a minute between.
  EXPECT_NEAR(hot_swap.hours, 2 + 0.5 + 9 + 8.0 / 60, 1e-9);
  EXPECT_GT(one_left.hours, 100);
  EXPECT_EQ(one_left.finished, 1u);
}

TEST(World, AGracefulStopKeepsTheWorkOfAJobThatCanSave) {
  const Cluster cluster = EightWay(1);
  TraceJob low = JobOf("low", hours(0), hours(4), 8);
  TraceJob high = JobOf("high", hours(1), hours(1), 8);
  high.job.priority = 10;
  Policy policy;
  policy.placement = "e-binpack";
  policy.preemption.grace = minutes(5);
  const Report killed = Simulate(cluster, {low, high}, policy);
  low.job.checkpoint = {.interval = hours(3), .save = minutes(3), .restart = minutes(12)};
  const Report saved = Simulate(cluster, {low, high}, policy);
  EXPECT_EQ(killed.preemptions, 1u);
  EXPECT_EQ(saved.preemptions, 1u);
  // Without a contract it works on through the grace, then loses all.
  EXPECT_NEAR(killed.lost_h, 8 * (1 + 5.0 / 60), 1e-9);
  EXPECT_EQ(saved.lost_h, 0);
  EXPECT_NEAR(saved.restarted_h, 8 * 15.0 / 60, 1e-9);
  EXPECT_NEAR(saved.hours, 5 + 15.0 / 60, 1e-9);
}

TEST(World, StopsJobsAtTheirTimeLimit) {
  const Cluster cluster = EightWay(1);
  TraceJob job = JobOf("a", hours(0), hours(10), 8);
  job.job.limit = hours(2);
  Policy policy = InOrder();
  policy.preemption.grace = minutes(1);
  const Report report = Simulate(cluster, {job}, policy);
  EXPECT_EQ(report.failed, 1u);
  EXPECT_EQ(report.finished, 0u);
  EXPECT_NEAR(report.hours, 2 + 1.0 / 60, 1e-9);
}

TEST(World, AJobThatWaitsForOneStoppedAtItsLimitFailsAndHasNoWait) {
  TraceJob first = JobOf("a", hours(0), hours(2), 8);
  first.job.limit = hours(1);
  TraceJob second = JobOf("b", hours(0), hours(2), 8);
  second.job.after = {"a"};
  const Cluster cluster = EightWay(1);
  const Report report = Simulate(cluster, {first, second});
  EXPECT_EQ(report.failed, 2u);
  EXPECT_EQ(report.started, 1u);
  EXPECT_EQ(report.waits.max_h, 0);
  EXPECT_LT(report.hours, 2);
}

TEST(World, AJobThatArrivesAfterOneThatItWaitsForHasFailedFailsToo) {
  TraceJob first = JobOf("a", hours(0), hours(2), 8);
  first.job.limit = hours(1);
  TraceJob second = JobOf("b", hours(3), hours(2), 8);
  second.job.after = {"a"};
  TraceJob third = JobOf("c", hours(4), hours(2), 8);
  third.job.after = {"b"};
  const Report report = Simulate(EightWay(1), {first, second, third});
  EXPECT_EQ(report.failed, 3u);
  EXPECT_EQ(report.started, 1u);
  EXPECT_EQ(report.waits.max_h, 0);
}

TEST(World, ADrainedNodeTakesNoNewWork) {
  const Cluster cluster = EightWay(1);
  WorldOptions options;
  options.drains = {{.node = 0, .at = hours(1), .length = hours(5)}};
  const Report report = Simulate(
      cluster, {JobOf("a", hours(0), hours(2), 8), JobOf("b", hours(1), hours(1), 8)}, InOrder(), options);
  EXPECT_DOUBLE_EQ(report.hours, 7);
  EXPECT_EQ(report.finished, 2u);
}

TEST(World, AJobWaitsForItsDependenciesAndItsWaitCountsFromThen) {
  const Cluster cluster = EightWay(4);
  TraceJob second = JobOf("b", hours(0), hours(1), 8);
  second.job.after = {"a"};
  TraceJob third = JobOf("c", hours(0), hours(1), 8);
  third.job.not_before = conf::TimePoint(hours(9));
  const Report report = Simulate(cluster, {JobOf("a", hours(0), hours(2), 8), second, third});
  EXPECT_EQ(report.finished, 3u);
  EXPECT_DOUBLE_EQ(report.hours, 10);
  EXPECT_DOUBLE_EQ(report.waits.max_h, 0);
  EXPECT_EQ(report.saturated_hours, 0);
}

TEST(World, AJobOfALaterRunWaitsForThoseOfItsOwnRun) {
  const Cluster cluster = EightWay(4);
  TraceJob second = JobOf("b", hours(1), hours(1), 8);
  second.job.after = {"a"};
  WorldOptions options;
  options.times = 2;
  const Report report =
      Simulate(cluster, {JobOf("a", hours(0), hours(2), 8), second}, InOrder(), std::move(options));
  EXPECT_EQ(report.submitted, 4u);
  EXPECT_EQ(report.finished, 4u);
  EXPECT_DOUBLE_EQ(report.hours, 4.5);  // the second a from 1.5 h to 3.5 h, then the second b
}

TEST(World, AnIdleNotebookReleasesItsDevicesAndStillEnds) {
  const Cluster cluster = EightWay(1);
  TraceJob notebook = JobOf("n", hours(0), hours(20), 8);
  notebook.job.work = WorkClass::kNotebook;
  notebook.job.idle_timeout = hours(1);
  const Report report = Simulate(cluster, {notebook, JobOf("b", hours(0), hours(5), 8)}, InOrder());
  EXPECT_EQ(report.finished, 2u);
  EXPECT_GT(report.idle_h, 0);
  EXPECT_EQ(report.lost_h, 0);
  EXPECT_NEAR(report.useful_h, 8 * 25, 1e-6);
  EXPECT_LT(report.waits.max_h, 20);  // b did not wait for the notebook's end
}

TEST(World, AnIdleNotebookThatGetsMoreMembersIsUsedAgain) {
  const Cluster cluster = EightWay(1);
  TraceJob notebook = JobOf("n", minutes(1), hours(20), 8);
  Role& role = notebook.job.roles.front();
  role.ask.devices.front().count = 1;
  role.count = 8;
  role.min_count = 1;
  notebook.job.work = WorkClass::kNotebook;
  notebook.job.idle_timeout = hours(12);
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    WorldOptions options;
    options.seed = seed;
    // The notebook begins with half of its members, and gets the others after three hours, idle or not.
    const Report report =
        Simulate(cluster, {JobOf("b", hours(0), hours(3), 4), notebook}, InOrder(), std::move(options));
    EXPECT_EQ(report.finished, 2u) << "seed " << seed;
    EXPECT_NEAR(report.useful_h, 8 * 20 + 4 * 3, 1e-6) << "seed " << seed;
    EXPECT_LT(report.hours, 24 * 30) << "seed " << seed;
  }
}

// "elastic" has both nodes, of which the queue of "due" deserves one.
struct Reclaimed {
  Reclaimed() {
    TraceJob elastic = JobOf("elastic", hours(0), hours(10), 16, "over");
    elastic.job.roles[0].min_count = 1;
    elastic.job.checkpoint = {.interval = hours(1), .save = {}, .restart = {}};
    TraceJob due = JobOf("due", hours(1), hours(2), 8, "under");
    jobs = {elastic, due};
    queues = {{.name = "over", .parent = {}, .deserved = {{"*", 8'000}}},
              {.name = "under", .parent = {}, .deserved = {{"*", 8'000}}}};
    policy.preemption.grace = minutes(30);
  }
  std::vector<TraceJob> jobs;
  std::vector<Queue> queues;
  Policy policy = InOrder();
};

TEST(World, MembersThatAreReclaimedLeaveAtTheEndOfTheirGrace) {
  Reclaimed r;
  r.jobs[0].job.checkpoint = {};
  const Report report = Simulate(EightWay(2), r.jobs, r.policy, {}, r.queues);
  EXPECT_EQ(report.finished, 2u);
  EXPECT_DOUBLE_EQ(report.waits.max_h, 0.5);
  // 1.5 h with both nodes, 2 h with one, and the rest with both again.
  EXPECT_DOUBLE_EQ(report.hours, 11);
}

// Its periodic checkpoints come and go meanwhile.
TEST(World, ACheckpointDoesNotKeepMembersThatLeave) {
  Reclaimed r;
  r.jobs[0].job.checkpoint.save = minutes(1);
  r.jobs[0].job.checkpoint.interval = minutes(1);
  WorldOptions options;
  options.saves_when_told = false;
  const Report report = Simulate(EightWay(2), r.jobs, r.policy, options, r.queues);
  EXPECT_EQ(report.finished, 2u);
  EXPECT_DOUBLE_EQ(report.waits.max_h, 0.5);
}

TEST(World, QueueSatisfactionIsTheHeldPartOfItsDue) {
  const Cluster cluster = EightWay(1);
  std::vector<Queue> queues = {{.name = "x", .parent = {}}, {.name = "y", .parent = {}}};
  queues[1].deserved = {{"*", 4'000}};
  // x holds the node for 3 h, meanwhile y wants 8 and is due 4; then y has it for 1 h.
  const Report report = Simulate(
      cluster, {JobOf("a", hours(0), hours(3), 8, "x"), JobOf("b", hours(0), hours(1), 8, "y")},
      [] {
        Policy policy = InOrder();
        policy.preemption.reclaim = false;
        return policy;
      }(),
      {}, queues);
  ASSERT_EQ(report.queues.size(), 2u);
  EXPECT_DOUBLE_EQ(report.queues[0].satisfaction, 1);
  EXPECT_DOUBLE_EQ(report.queues[1].satisfaction, 4.0 * 1 / (4 * 4));
  EXPECT_DOUBLE_EQ(report.queues[1].device_hours, 8);
  EXPECT_DOUBLE_EQ(report.jain, 1.25 * 1.25 / (2 * (1 + 0.0625)));
}

TEST(World, EndsAlthoughSomeJobsNeverEnd) {
  const Cluster cluster = EightWay(1);
  TraceJob service = JobOf("s", hours(0), hours(1), 8);
  service.run.reset();
  WorldOptions options;
  options.mtbf = hours(1000);
  const Report report = Simulate(cluster, {service, JobOf("b", hours(1), hours(1), 8)}, InOrder(), [&] {
    options.horizon = hours(24);
    return options;
  }());
  EXPECT_EQ(report.unfinished, 2u);
  EXPECT_DOUBLE_EQ(report.hours, 24);
}

TEST(World, EndsWhenAllThatWaitsIsBehindJobsThatNeverEnd) {
  const Cluster cluster = EightWay(1);
  TraceJob service = JobOf("s", hours(0), hours(1), 8);
  service.run.reset();
  Policy policy = InOrder();
  policy.defragment = {.enabled = true, .every = hours(1)};
  const Report report = Simulate(cluster, {service, JobOf("b", hours(1), hours(1), 8)}, policy, {});
  EXPECT_EQ(report.unfinished, 2u);
  EXPECT_LT(report.hours, 100 * 24);
}

std::string Bytes(const Report& report) {
  std::string out;
  for (const Metric& metric : Metrics()) out += fmt::format("{}={}\n", metric.key, metric.of(report));
  for (const Sample& s : report.samples) {
    out += fmt::format("{} {} {} {} {} {}\n", s.hour, s.gar, s.sor, s.gfr, s.fragmentation, s.waiting);
  }
  return out;
}

std::vector<TraceJob> RandomJobs(uint64_t seed, int count) {
  Rng rng(seed);
  std::vector<TraceJob> jobs;
  conf::Duration at{};
  for (int i = 0; i < count; ++i) {
    at += minutes(rng.Uniform(20));
    jobs.push_back(JobOf(fmt::format("job-{}", i), at, minutes(1 + rng.Uniform(600)),
                         uint32_t{1} << rng.Uniform(6), rng.Uniform(2) == 0 ? "x" : "y"));
    jobs.back().job.checkpoint = {.interval = minutes(30), .save = minutes(1), .restart = minutes(2)};
    jobs.back().job.restart_budget = 1000;
  }
  return jobs;
}

TEST(World, TheSameSeedGivesTheSameBytesAndAnotherOneOthers) {
  const Cluster cluster = EightWay(8, 2);
  WorldOptions options;
  options.mtbf = hours(50);
  options.repair = hours(2);
  const std::string first = Bytes(Simulate(cluster, RandomJobs(1, 300), InOrder(Backfill::kEasy), options));
  EXPECT_EQ(first, Bytes(Simulate(cluster, RandomJobs(1, 300), InOrder(Backfill::kEasy), options)));
  options.seed = 2;
  EXPECT_NE(first, Bytes(Simulate(cluster, RandomJobs(1, 300), InOrder(Backfill::kEasy), options)));
}

TEST(World, EveryHeldDeviceHourIsUsefulLostRestartingSavingOrOpen) {
  const Cluster cluster = EightWay(8, 2);
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    std::vector<TraceJob> jobs = RandomJobs(seed, 200);
    double work = 0;
    for (const TraceJob& job : jobs) {
      work += static_cast<double>(DeviceMilli(job.job)) / 1000 * conf::ToSeconds(*job.run) / 3600;
    }
    WorldOptions options;
    options.seed = seed;
    options.mtbf = hours(40);
    options.repair = hours(2);
    options.load = minutes(1);
    const Report report = Simulate(cluster, jobs, InOrder(Backfill::kEasy), options);
    EXPECT_EQ(report.finished, 200u);
    EXPECT_NEAR(report.useful_h, work, 1e-6 * work);
    EXPECT_GT(report.lost_h, 0);
    EXPECT_GT(report.restarts, 0u);
    const double held = report.sor_mean * 64 * report.hours;
    EXPECT_GT(report.saved_h, 0);
    EXPECT_NEAR(held, report.useful_h + report.lost_h + report.restarted_h + report.saved_h + report.open_h,
                1e-6 * held);
  }
}

TEST(World, PlansAtMostOnceInTheMinimumInterval) {
  const Cluster cluster = EightWay(2);
  WorldOptions options;
  options.min_cycle = minutes(30);
  const Report report = Simulate(
      cluster, {JobOf("a", hours(0), hours(1), 8), JobOf("b", minutes(10), hours(1), 8)}, InOrder(), options);
  EXPECT_DOUBLE_EQ(report.waits.max_h, 20.0 / 60);
  EXPECT_EQ(report.finished, 2u);
}

}  // namespace
}  // namespace scheduler::sim
