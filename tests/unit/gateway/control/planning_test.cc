// Workloads in the planner: which of them get which devices, which get none and why, and what a process
// before this one has given away.
#include "gateway/control/planning/planning.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <tuple>

#include "gateway/control/workloads/grant.h"
#include "tests/unit/gateway/config/config_fixture.h"

namespace gateway::control {
namespace {

using plugins::launchers::DeviceGrant;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

const conf::TimePoint kStart = conf::FromUnixMicros(1'700'000'000'000'000);

// A machine with four h100.
config::Scaling Machine() {
  const LoadResult loaded = Parse(With({{"models", "[{name: chat-small}]"},
                                        {"scaling",
                                         "{policies: conf/policies/scaling/chat-small.yaml, "
                                         "cluster: [{kind: h100, count: 4}]}"},
                                        {"tenants", "[{name: search, models: [chat-small]}]"}}));
  for (const conf::Problem& problem : loaded.problems) ADD_FAILURE() << conf::ToString(problem);
  return *loaded.config->scaling;
}

// A replica of one member that needs so many devices.
scheduler::Job Replica(std::string id, std::vector<scheduler::DeviceAsk> devices) {
  scheduler::Job job;
  job.id = std::move(id);
  job.queue = "default";
  job.work = scheduler::WorkClass::kInference;
  job.preemptible = false;
  job.submitted = kStart;
  job.roles = {{.name = "replica", .ask = {.devices = std::move(devices)}}};
  return job;
}
scheduler::Job Replica(std::string id, uint16_t count) {
  return Replica(std::move(id), {{.kinds = {"h100"}, .count = count}});
}

struct Outcome {
  std::vector<std::pair<std::string, DeviceGrant>> starts;
  std::vector<std::pair<std::string, std::string>> waiting;
  size_t stops = 0;
};
Outcome RunCycle(Planning& planning) {
  Outcome out;
  const std::optional<scheduler::Plan> plan = planning.Run(kStart);
  if (!plan) return out;
  for (const scheduler::Action& action : plan->actions) {
    if (action.kind != scheduler::ActionKind::kStart) {
      ++out.stops;
    } else {
      out.starts.emplace_back(action.job, GrantOf(planning.cluster(), action.members.front().holding));
    }
  }
  for (const auto& [id, reason] : plan->waiting) out.waiting.emplace_back(id, reason.text);
  return out;
}

bool Restore(Planning& planning, scheduler::Job job, const DeviceGrant& grant) {
  const std::optional<scheduler::Holding> holding = HoldingOf(planning.cluster(), grant);
  if (!holding) return false;
  scheduler::JobState job_state;
  job_state.job = std::move(job);
  job_state.phase = scheduler::Phase::kRunning;
  job_state.members = {{.role = 0, .rank = 0, .holding = *holding}};
  job_state.started = job_state.checkpointed = kStart;
  return planning.Restore(std::move(job_state));
}

TEST(Planning, ReplicasGetDevicesOfTheirOwnUntilThereAreNone) {
  Planning planning(Machine(), kStart);
  planning.Submit(Replica("r-a", 2), kStart);
  planning.Submit(Replica("r-b", 2), kStart);
  planning.Submit(Replica("r-c", 2), kStart);
  const Outcome first = RunCycle(planning);
  ASSERT_EQ(first.starts.size(), 2u);
  std::vector<uint8_t> given = first.starts[0].second.devices;
  given.insert(given.end(), first.starts[1].second.devices.begin(), first.starts[1].second.devices.end());
  EXPECT_THAT(given, testing::UnorderedElementsAre(0, 1, 2, 3));
  EXPECT_EQ(first.starts[0].second.node, "local");
  EXPECT_EQ(first.starts[0].second.kind, "h100");
  ASSERT_EQ(first.waiting.size(), 1u);
  EXPECT_EQ(first.waiting[0].first, "r-c");
  EXPECT_FALSE(first.waiting[0].second.empty());
  EXPECT_THAT(RunCycle(planning).starts, IsEmpty()) << "nothing has changed";
  planning.Leave("r-a", kStart);
  const Outcome then = RunCycle(planning);
  ASSERT_EQ(then.starts.size(), 1u);
  EXPECT_EQ(then.starts[0].first, "r-c");
}

TEST(Planning, AnImpossibleRequestWaitsWithItsReason) {
  Planning planning(Machine(), kStart);
  planning.Submit(Replica("r-a", 8), kStart);
  const Outcome outcome = RunCycle(planning);
  EXPECT_THAT(outcome.starts, IsEmpty());
  EXPECT_THAT(planning.Explain("r-a", kStart), testing::Contains(HasSubstr("8 h100")));
  planning.Submit(Replica("r-b", 1), kStart);
  EXPECT_EQ(RunCycle(planning).starts.size(), 1u) << "others are served all the same";
}

TEST(Planning, RestoredWorkKeepsItsDevices) {
  Planning planning(Machine(), kStart);
  const DeviceGrant grant{.node = "local", .kind = "h100", .devices = {1, 2}};
  EXPECT_TRUE(Restore(planning, Replica("r-old", 2), grant));
  EXPECT_FALSE(Restore(planning, Replica("r-twice", 2), grant)) << "they are taken";
  EXPECT_FALSE(
      Restore(planning, Replica("r-gone", 1), {.node = "elsewhere", .kind = "h100", .devices = {0}}));
  EXPECT_FALSE(Restore(planning, Replica("r-few", 1), {.node = "local", .kind = "h100", .devices = {4}}));
  EXPECT_FALSE(Restore(planning, Replica("r-kind", 1), {.node = "local", .kind = "a100", .devices = {0}}));
  planning.Submit(Replica("r-new", 2), kStart);
  Outcome outcome = RunCycle(planning);
  ASSERT_EQ(outcome.starts.size(), 1u);
  EXPECT_THAT(outcome.starts[0].second.devices, ElementsAre(0, 3));
  planning.Submit(Replica("r-next", 2), kStart);
  EXPECT_THAT(RunCycle(planning).starts, IsEmpty());
  planning.Leave("r-old", kStart);
  outcome = RunCycle(planning);
  ASSERT_EQ(outcome.starts.size(), 1u);
  EXPECT_THAT(outcome.starts[0].second.devices, ElementsAre(1, 2));
}

TEST(Planning, DeviceSharesAreAssignedAndRestored) {
  const std::vector<scheduler::DeviceAsk> kHalf = {{.kinds = {"h100"}, .milli = 500, .memory_mib = 0}};
  std::vector<DeviceGrant> grants;
  {
    Planning planning(Machine(), kStart);
    for (int i = 0; i < 8; ++i) planning.Submit(Replica("r-" + std::to_string(i), kHalf), kStart);
    for (const auto& [id, grant] : RunCycle(planning).starts) grants.push_back(grant);
  }
  ASSERT_EQ(grants.size(), 8u) << "two on each of four";
  EXPECT_EQ(grants.front().milli, 500);
  Planning next(Machine(), kStart);
  for (int i = 0; i < 8; ++i)
    EXPECT_TRUE(Restore(next, Replica("r-" + std::to_string(i), kHalf), grants[static_cast<size_t>(i)])) << i;
  EXPECT_FALSE(Restore(next, Replica("r-8", kHalf), grants[0]));
  next.Submit(Replica("r-9", kHalf), kStart);
  EXPECT_THAT(RunCycle(next).starts, IsEmpty());
}

TEST(Planning, WorkWithoutDevicesFitsEverywhere) {
  Planning planning(Machine(), kStart);
  for (int i = 0; i < 20; ++i)
    planning.Submit(Replica("r-" + std::to_string(i), std::vector<scheduler::DeviceAsk>()), kStart);
  EXPECT_EQ(RunCycle(planning).starts.size(), 20u);
}

TEST(Planning, DevicesOfOthersAreNotAssignedAndOursStay) {
  Planning planning(Machine(), kStart);
  planning.Submit(Replica("r-a", 1), kStart);
  const Outcome first = RunCycle(planning);
  ASSERT_EQ(first.starts.size(), 1u);
  const uint8_t given = first.starts[0].second.devices[0];
  planning.UpdateNodes({{"local", scheduler::Health::kHealthy, "h100", 4, 2}}, kStart);
  planning.Submit(Replica("r-b", 2), kStart);
  planning.Submit(Replica("r-c", 1), kStart);
  const Outcome second = RunCycle(planning);
  ASSERT_EQ(second.starts.size(), 1u) << "of four, others hold two and r-a one";
  EXPECT_EQ(second.starts[0].first, "r-c");
  EXPECT_NE(second.starts[0].second.devices[0], given);
  EXPECT_EQ(second.stops, 0u);
  planning.UpdateNodes({{"local", scheduler::Health::kHealthy, "h100", 4, 0}}, kStart);
  const Outcome third = RunCycle(planning);
  ASSERT_EQ(third.starts.size(), 1u) << "they have gone";
  EXPECT_EQ(third.starts[0].first, "r-b");
}

TEST(Planning, CpuAndMemoryOfOthersAreNotAssignedAndOursStay) {
  config::Scaling machine = Machine();
  machine.nodes.types[0].cpu_milli = 8000;
  machine.nodes.types[0].memory_mib = 1024;
  Planning planning(machine, kStart);
  const auto submit = [&](std::string id, int64_t cpu_milli, int64_t memory_mib) {
    scheduler::Job job = Replica(std::move(id), 1);
    job.roles[0].ask.cpu_milli = cpu_milli;
    job.roles[0].ask.memory_mib = memory_mib;
    planning.Submit(std::move(job), kStart);
  };
  const auto others_hold = [&](int64_t cpu_milli, int64_t memory_mib) {
    planning.UpdateNodes({{.name = "local",
                           .kind = "h100",
                           .devices = 4,
                           .host = {{.has = {7000, 1024}, .taken = {cpu_milli, memory_mib}}}}},
                         kStart);
  };
  submit("r-a", 3000, 0);
  EXPECT_EQ(RunCycle(planning).starts.size(), 1u);
  others_hold(2000, 512);
  submit("r-b", 3000, 0);
  submit("r-c", 2000, 512);
  const Outcome second = RunCycle(planning);
  ASSERT_EQ(second.starts.size(), 1u) << "of 7 cores, others hold 2 and r-a 3";
  EXPECT_EQ(second.starts[0].first, "r-c");
  EXPECT_EQ(second.stops, 0u);
  others_hold(6000, 0);
  planning.Leave("r-a", kStart);
  EXPECT_THAT(RunCycle(planning).starts, IsEmpty()) << "what r-a leaves, others hold";
  others_hold(0, 0);
  const Outcome last = RunCycle(planning);
  ASSERT_EQ(last.starts.size(), 1u) << "they have gone";
  EXPECT_EQ(last.starts[0].first, "r-b");
}

TEST(Planning, NoDeviceIsGivenThatOnlyOurDescriptionOfTheClusterHas) {
  for (const auto& [kind, devices, starts] :
       {std::tuple{"h100", 4u, 4u}, {"h100", 8u, 4u}, {"h100", 3u, 3u}, {"a100", 4u, 0u}, {"", 0u, 0u}}) {
    Planning planning(Machine(), kStart);
    planning.UpdateNodes({{"local", scheduler::Health::kHealthy, kind, devices, 0}}, kStart);
    for (int i = 0; i < 5; ++i) planning.Submit(Replica("r-" + std::to_string(i), 1), kStart);
    EXPECT_EQ(RunCycle(planning).starts.size(), starts) << devices << " of kind " << kind;
  }
}

TEST(Planning, NothingIsPlacedOnANodeThatIsDownOrUnknown) {
  for (const std::vector<plugins::launchers::SharedNode>& seen :
       {std::vector<plugins::launchers::SharedNode>{{"local", scheduler::Health::kQuarantined, "h100", 4, 0}},
        std::vector<plugins::launchers::SharedNode>{}}) {
    Planning planning(Machine(), kStart);
    planning.UpdateNodes(seen, kStart);
    planning.Submit(Replica("r-a", 1), kStart);
    EXPECT_THAT(RunCycle(planning).starts, IsEmpty());
    planning.UpdateNodes({{"local", scheduler::Health::kHealthy, "h100", 4, 0}}, kStart);
    EXPECT_EQ(RunCycle(planning).starts.size(), 1u);
  }
}

// A job of a tenant in a queue.
scheduler::Job JobIn(std::string queue, std::string id, uint16_t count) {
  scheduler::Job job = Replica(std::move(id), count);
  job.work = scheduler::WorkClass::kBatch;
  job.queue = std::move(queue);
  job.preemptible = true;
  return job;
}

TEST(Planning, ReservedDevicesAreKeptForJobsOfTheReservation) {
  Planning planning(Machine(), kStart);
  planning.UpdateReserved({{"gr_1", "search", "h100", 2}}, kStart);
  planning.Submit(JobIn("", "other", 3), kStart);
  EXPECT_THAT(RunCycle(planning).starts, IsEmpty()) << "two of four are reserved";
  planning.Submit(JobIn("", "small", 2), kStart);
  planning.Submit(JobIn("gr_1", "mine", 2), kStart);
  EXPECT_EQ(RunCycle(planning).starts.size(), 2u);
}

TEST(Planning, ReservedDevicesAreTakenFromWorkThatRuns) {
  Planning planning(Machine(), kStart);
  for (const char* id : {"a", "b", "c", "d"}) planning.Submit(JobIn("", id, 1), kStart);
  EXPECT_EQ(RunCycle(planning).starts.size(), 4u);
  planning.UpdateReserved({{"gr_1", "search", "h100", 2}}, kStart);
  for (const char* id : {"a", "b", "c", "d"}) EXPECT_TRUE(planning.Knows(id));
  EXPECT_EQ(RunCycle(planning).stops, 0u) << "nobody needs them yet";
  planning.Submit(JobIn("gr_1", "mine", 2), kStart);
  EXPECT_EQ(RunCycle(planning).stops, 2u);
}

TEST(Planning, JobsOfAReservationThatEndsGoOnInTheFirstQueue) {
  Planning planning(Machine(), kStart);
  planning.UpdateReserved({{"gr_1", "search", "h100", 2}}, kStart);
  planning.Submit(JobIn("gr_1", "runs", 2), kStart);
  planning.Submit(JobIn("gr_1", "waits", 2), kStart);
  EXPECT_EQ(RunCycle(planning).starts.size(), 1u);
  planning.UpdateReserved({}, kStart);
  const Outcome after = RunCycle(planning);
  EXPECT_EQ(after.stops, 0u);
  EXPECT_EQ(after.starts.size(), 1u);
}

TEST(Planning, OnlyATenantOfTheReservationSeesItsQueue) {
  Planning planning(Machine(), kStart);
  planning.UpdateReserved({{"gr_1", "acme/search", "h100", 2}}, kStart);
  const auto has = [&](std::string_view tenant) {
    const std::vector<scheduler::Queue> queues = planning.QueuesOf(tenant);
    return std::ranges::find(queues, "gr_1", &scheduler::Queue::name) != queues.end();
  };
  EXPECT_TRUE(has("acme/search"));
  EXPECT_TRUE(has("acme/search/nlp"));
  EXPECT_FALSE(has("acme"));
  EXPECT_FALSE(has("acme/searching"));
  EXPECT_FALSE(has(""));
}

// The jobs that count when the expected run of a job is learned.
double RunsOf(Planning& planning, const std::string& application) {
  double runs = 0;
  const scheduler::Snapshot snapshot = planning.planner().TakeSnapshot(kStart);
  for (const scheduler::RunsOfClass& one : snapshot.runs) {
    if (one.of.application == application) runs += one.sums.runs;
  }
  return runs;
}

scheduler::Job Training(std::string id) {
  scheduler::Job job = Replica(std::move(id), 1);
  job.work = scheduler::WorkClass::kTraining;
  job.user = "ada";
  job.application = "finetune";
  return job;
}

TEST(Planning, LearnsTheRunsOfJobsThatEndForGoodAndOfThoseThatAnEarlierProcessKept) {
  config::Scaling machine = Machine();
  machine.planning.policy.order = {{"expected", 16}, {"age", 1}};
  Planning planning(machine, kStart);
  planning.LearnRuns({{Training("old"), std::chrono::hours(3)}});
  EXPECT_DOUBLE_EQ(RunsOf(planning, "finetune"), 1);
  planning.Submit(Training("begins-again"), kStart);
  planning.Submit(Training("ends"), kStart);
  EXPECT_EQ(RunCycle(planning).starts.size(), 2u);
  planning.Leave("begins-again", kStart);
  EXPECT_DOUBLE_EQ(RunsOf(planning, "finetune"), 1);
  planning.End("ends", kStart);
  EXPECT_NEAR(RunsOf(planning, "finetune"), 2, 0.01);
}

TEST(Planning, KeepsNoRunsWhereTheOrderDoesNotUseThem) {
  Planning planning(Machine(), kStart);
  planning.LearnRuns({{Training("old"), std::chrono::hours(3)}});
  EXPECT_DOUBLE_EQ(RunsOf(planning, "finetune"), 0);
}

}  // namespace
}  // namespace gateway::control
