// The records of workloads put together again: from the ledger, from what runs, and from what is left of the
// store; and a gateway that goes on with them.
#include "gateway/control/workload_history.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "gateway/control/workloads/workload_record.h"
#include "gateway/store/kinds.h"
#include "tests/unit/gateway/control/jobs/world.h"

namespace tests {
namespace {

using gateway::control::State;
using gateway::control::WorkloadHistory;
using plugins::launchers::RunState;
using plugins::launchers::RunStatus;
using testing::ElementsAre;
using testing::IsEmpty;

const conf::TimePoint kStart = conf::FromUnixMicros(1'700'000'000'000'000);

// What a gateway did, as its ledger has it.
class Past {
 public:
  Past() : history_(cluster_) {}

  void Say(const std::string& action, const std::string& subject,
           const nlohmann::json& detail = nlohmann::json::object()) {
    gateway::ledger::Record record;
    record.kind = gateway::ledger::Kind::kAction;
    record.time_us = ++time_us_;
    record.action = action;
    record.actor = "ada";
    record.subject = subject;
    record.detail = detail.dump();
    history_.Take(record);
  }
  void Submit(const std::string& id, const std::string& text, int jobs = 1) {
    Say("job.submit", id, {{"jobs", jobs}, {"file", "job.yaml"}, {"queue", "default"}, {"text", text}});
  }
  void Start(const std::string& job, int attempt, int members = 1) {
    Say("job.start", job,
        {{"attempt", attempt},
         {"members", members},
         {"places", {{{"node", "local"}, {"kind", "h100"}, {"devices", {7}}}}}});
  }
  void End(const std::string& job, const std::string& outcome) {
    Say("job.ended", job, {{"outcome", outcome}, {"restarts", outcome == "retries" ? 1 : 0}});
  }

  RunStatus Run(const std::string& id, uint8_t device, RunState state = RunState::kRunning) {
    RunStatus run;
    run.id = id;
    run.owner = "m";
    run.state = state;
    run.started = kStart;
    if (state == RunState::kEnded) run.ended = kStart, run.exit_code = 0;
    run.grant = {.node = "local", .kind = "h100", .devices = {device}};
    return run;
  }

  WorkloadHistory::Rebuilt Rebuild(std::vector<RunStatus> runs,
                                   std::vector<gateway::store::Object> stored = {}) {
    return history_.Rebuild(
        {.stored = std::move(stored),
         .runs = std::move(runs),
         .record_of = [](const std::string& run) -> absl::StatusOr<plugins::launchers::RunRecord> {
           plugins::launchers::RunRecord record;
           record.id = run;
           record.command = {"/bin/true"};
           return record;
         }});
  }
  // As the gateway reads them.
  gateway::control::KnownWorkloads Read(const WorkloadHistory::Rebuilt& rebuilt) {
    std::vector<gateway::store::Object> workloads, submissions;
    for (const gateway::store::Write& write : rebuilt.writes) {
      auto& into = write.kind == gateway::store::kWorkload ? workloads : submissions;
      into.push_back({write.kind, write.id, 1, *write.body});
    }
    auto known = gateway::control::ReadWorkloads(workloads, submissions, cluster_);
    EXPECT_TRUE(known.ok()) << known.status();
    return known.ok() ? *std::move(known) : gateway::control::KnownWorkloads();
  }

 private:
  const scheduler::Cluster cluster_ = Machine();
  WorkloadHistory history_;
  int64_t time_us_ = conf::ToUnixMicros(kStart);
};

constexpr char kJob[] = "name: work\ncommand: [/bin/true]\ndevices: [{kind: h100, count: 1}]\nrestarts: 2\n";

TEST(WorkloadHistory, JobsAreRebuiltFromTheLedgerAndTheRuns) {
  Past past;
  for (int i = 1; i <= 7; ++i) past.Submit("work-" + std::to_string(i), kJob);
  past.Start("work-1", 1);  // runs
  past.Start("work-2", 1), past.End("work-2", "ends");
  past.Start("work-3", 1), past.End("work-3", "retries");
  past.Say("job.suspend", "work-4");
  past.Say("job.cancel", "work-5");
  past.Start("work-6", 1), past.Say("job.cancel", "work-6");  // is told to end
  past.Start("work-7", 1);                                    // and nothing is left of it
  const auto rebuilt = past.Rebuild({past.Run("j-work-1-1-0", 0), past.Run("j-work-6-1-0", 1),
                                     past.Run("j-work-2-1-0", 2, RunState::kEnded)});
  EXPECT_THAT(rebuilt.running, ElementsAre("work-1", "work-6"));
  EXPECT_THAT(rebuilt.waiting, ElementsAre("work-3", "work-4", "work-7"));
  EXPECT_EQ(rebuilt.over, 2u);
  const auto known = past.Read(rebuilt);
  EXPECT_EQ(known.last_number, 7u);
  std::map<std::string, const Workload*> by_id;
  for (const Workload& one : known.workloads) by_id[one.id] = &one;
  EXPECT_EQ(by_id["work-1"]->state, State::kRunning);
  ASSERT_EQ(by_id["work-1"]->members.size(), 1u);
  EXPECT_EQ(by_id["work-1"]->members[0].at.holding.devices, 1u);
  EXPECT_EQ(JobStateOf(*by_id["work-2"]), "done");
  EXPECT_EQ(by_id["work-3"]->state, State::kPending);
  EXPECT_EQ(by_id["work-3"]->restarts, 1u);
  EXPECT_EQ(by_id["work-3"]->attempt, 1u);
  EXPECT_EQ(JobStateOf(*by_id["work-4"]), "suspended");
  EXPECT_EQ(JobStateOf(*by_id["work-5"]), "cancelled");
  EXPECT_EQ(by_id["work-6"]->state, State::kDraining);
  EXPECT_EQ(by_id["work-6"]->afterwards, gateway::control::Afterwards::kCancels);
  EXPECT_EQ(by_id["work-7"]->state, State::kPending);
}

TEST(WorkloadHistory, AnArrayComesBackElementByElement) {
  Past past;
  past.Submit("work-3", std::string(kJob) + "array: {count: 2}\n", 2);
  past.Start("work-3.1", 1);
  const auto rebuilt = past.Rebuild({past.Run("j-work-3.1-1-0", 0)});
  EXPECT_THAT(rebuilt.running, ElementsAre("work-3.1"));
  EXPECT_THAT(rebuilt.waiting, ElementsAre("work-3.0"));
  EXPECT_EQ(past.Read(rebuilt).workloads.size(), 2u);
}

TEST(WorkloadHistory, AJobWithALostFileKeepsRunningAndIsNotRestarted) {
  Past past;
  past.Start("work-9", 2);
  past.Say("job.submit", "work-10", {{"jobs", 1}});
  const auto rebuilt = past.Rebuild({past.Run("j-work-9-2-0", 3)});
  EXPECT_THAT(rebuilt.running, ElementsAre("work-9"));
  EXPECT_THAT(rebuilt.without_file, ElementsAre("work-9"));
  EXPECT_THAT(rebuilt.lost, ElementsAre("work-10"));
  const auto known = past.Read(rebuilt);
  EXPECT_EQ(known.last_number, 10u);
  ASSERT_EQ(known.workloads.size(), 1u);
  EXPECT_EQ(known.workloads[0].file().job.restart_budget, 0u);
  EXPECT_EQ(known.workloads[0].attempt, 2u);
}

TEST(WorkloadHistory, ReplicasAreTheirRunsAndOneThatWasToEndStillEnds) {
  Past past;
  past.Say("replica.drain", "r-m-2");
  const auto rebuilt = past.Rebuild({past.Run("r-m-1", 0), past.Run("r-m-1-1", 1), past.Run("r-m-2", 2),
                                     past.Run("r-m-3", 3, RunState::kEnded), past.Run("r-m-4-1", 4)});
  EXPECT_THAT(rebuilt.replicas, ElementsAre("r-m-1", "r-m-2", "r-m-4-1"));
  const auto known = past.Read(rebuilt);
  ASSERT_EQ(known.workloads.size(), 3u);
  EXPECT_EQ(known.workloads[0].members.size(), 2u);
  EXPECT_EQ(known.workloads[0].state, State::kStarting);
  EXPECT_EQ(known.workloads[1].state, State::kDraining);
}

TEST(WorkloadHistory, TheDamagedStoreCountsUnlessLedgerOrRunsContradict) {
  Past past;
  past.Submit("work-1", kJob);
  past.Submit("work-2", kJob);
  past.Start("work-2", 1);
  const auto before = past.Rebuild({past.Run("j-work-2-1-0", 0)});
  std::vector<gateway::store::Object> stored;
  for (const gateway::store::Write& write : before.writes)
    stored.push_back({write.kind, write.id, 1, *write.body});
  stored.push_back({gateway::store::kWorkload, "work-3", 9, "{\"of\":"});
  past.End("work-2", "ends");
  const auto rebuilt = past.Rebuild({past.Run("j-work-1-1-0", 0)}, stored);
  EXPECT_THAT(rebuilt.running, ElementsAre("work-1")) << "it was started after that page was written";
  EXPECT_THAT(rebuilt.waiting, IsEmpty());
  EXPECT_EQ(rebuilt.over, 1u) << "it had ended";
}

TEST(WorkloadHistory, AGatewayContinuesWithTheRebuiltState) {
  MemoryStore lost, store;
  ScriptedLauncher launcher;
  Past past;
  std::string runs;
  {
    JobsWorld world(lost, launcher, kStart);
    runs = world.Submit(kJob);
    world.Settle();
    ASSERT_EQ(world.State(runs), "running");
  }
  past.Submit(runs, kJob);
  past.Start(runs, 1);
  const auto rebuilt = past.Rebuild(launcher.Now());
  ASSERT_THAT(rebuilt.running, ElementsAre(runs));
  gateway::net::TaskGroup tasks([](std::exception_ptr) { ADD_FAILURE() << "a task threw"; });
  tasks.Spawn([](MemoryStore& into, std::vector<gateway::store::Write> writes) -> gateway::net::Task<void> {
    EXPECT_TRUE((co_await into.Commit(std::move(writes))).ok());
  }(store, rebuilt.writes));
  JobsWorld next(store, launcher, kStart + std::chrono::seconds(5));
  next.Settle();
  EXPECT_EQ(next.State(runs), "running");
  EXPECT_EQ(launcher.starts.size(), 1u);
  EXPECT_EQ(launcher.starts.begin()->second, 1);
  EXPECT_THAT(launcher.told, IsEmpty());
}

}  // namespace
}  // namespace tests
