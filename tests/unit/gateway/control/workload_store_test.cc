// The records of workloads in the store, and what version 0.1 kept in files.
#include "gateway/control/workloads/workload_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "conf/text.h"
#include "gateway/control/workloads/legacy_files.h"
#include "gateway/store/kinds.h"
#include "tests/support/memory_store.h"
#include "tests/support/temp_dir.h"
#include "tests/unit/gateway/control/jobs/world.h"

namespace tests {
namespace {

using gateway::control::Kind;
using gateway::control::KnownWorkloads;
using gateway::control::Outcome;
using gateway::control::State;
using gateway::control::WorkloadStore;
using gateway::net::Task;
using testing::ElementsAre;
using testing::HasSubstr;

// Runs to its end at once: the store in memory answers at once.
template <class T>
T Now(Task<T> task) {
  std::optional<T> result;
  gateway::net::TaskGroup tasks([](std::exception_ptr) { ADD_FAILURE() << "a task threw"; });
  tasks.Spawn([](Task<T> asked, std::optional<T>& out) -> Task<void> {
    out.emplace(co_await std::move(asked));
  }(std::move(task), result));
  return *std::move(result);
}

Workload Replica(const std::string& id) {
  Workload replica;
  replica.id = id;
  replica.kind = Kind::kReplica;
  replica.model = "m";
  replica.state = State::kPlaced;
  replica.started = conf::FromUnixMicros(1'700'000'000'000'000);
  replica.members.resize(2);
  for (uint32_t rank = 0; rank < 2; ++rank) {
    replica.members[rank].run = RunId(replica, rank);
    replica.members[rank].at = {.rank = rank, .holding = {.node = 0, .devices = 3u << (2 * rank)}};
  }
  return replica;
}

TEST(WorkloadStore, ReportsWritesAndBatchesThem) {
  MemoryStore backend;
  const scheduler::Cluster cluster = Machine();
  WorkloadStore store(backend, cluster);
  ASSERT_TRUE(Now(store.Load()).ok());
  for (const char* id : {"r-a", "r-b", "r-c"}) store.Put(Replica(id));
  ASSERT_TRUE(Now(store.Flush()).ok());
  EXPECT_EQ(backend.commits, 1u);
  store.Remove(Replica("r-b"));
  store.Remove(Replica("r-never-written"));
  ASSERT_TRUE(Now(store.Flush()).ok());
  ASSERT_TRUE(Now(store.Flush()).ok());
  EXPECT_EQ(backend.commits, 2u) << "nothing has changed since";

  WorkloadStore next(backend, cluster);
  const absl::StatusOr<KnownWorkloads> known = Now(next.Load());
  ASSERT_TRUE(known.ok()) << known.status();
  ASSERT_EQ(known->workloads.size(), 2u);
  const Workload& first = known->workloads[0];
  EXPECT_EQ(first.id, "r-a");
  EXPECT_EQ(first.state, State::kPlaced);
  ASSERT_EQ(first.members.size(), 2u);
  EXPECT_EQ(first.members[1].run, "r-a-1");
  EXPECT_EQ(first.members[1].at.holding.devices, 12u);
}

TEST(WorkloadStore, AFailedWriteIsRetriedWithTheNext) {
  MemoryStore backend;
  const scheduler::Cluster cluster = Machine();
  WorkloadStore store(backend, cluster);
  ASSERT_TRUE(Now(store.Load()).ok());
  store.Put(Replica("r-a"));
  backend.refuses = absl::ResourceExhaustedError("the disk is full");
  EXPECT_FALSE(Now(store.Flush()).ok());
  backend.refuses = absl::OkStatus();
  EXPECT_TRUE(Now(store.Flush()).ok());
  EXPECT_EQ(backend.Count(gateway::store::kWorkload), 1u);
}

TEST(WorkloadStore, AWriteWithALostAnswerDoesNotBlockTheNext) {
  MemoryStore backend;
  const scheduler::Cluster cluster = Machine();
  WorkloadStore store(backend, cluster);
  ASSERT_TRUE(Now(store.Load()).ok());
  store.Put(Replica("r-a"));
  backend.loses_answer = true;
  EXPECT_FALSE(Now(store.Flush()).ok());
  backend.loses_answer = false;
  EXPECT_TRUE(Now(store.Flush()).ok());
  store.Remove(Replica("r-a"));
  EXPECT_TRUE(Now(store.Flush()).ok());
  EXPECT_EQ(backend.Count(gateway::store::kWorkload), 0u);
}

TEST(WorkloadStore, ADamagedRecordIsNamed) {
  MemoryStore backend;
  const scheduler::Cluster cluster = Machine();
  backend.objects[{"workload", "r-a"}] = {"workload", "r-a", 1, "{\"model\":\"m\"}"};
  WorkloadStore store(backend, cluster);
  const absl::Status damaged = Now(store.Load()).status();
  EXPECT_TRUE(absl::IsDataLoss(damaged));
  EXPECT_THAT(std::string(conf::Std(damaged.message())), HasSubstr("workload r-a"));
}

TEST(WorkloadStore, DevicesOfAnotherKindThanWasGivenAreNotThoseThatWereGiven) {
  MemoryStore backend;
  scheduler::Cluster cluster = Machine();
  WorkloadStore store(backend, cluster);
  ASSERT_TRUE(Now(store.Load()).ok());
  store.Put(Replica("r-a"));
  ASSERT_TRUE(Now(store.Flush()).ok());
  cluster.kinds[0].name = "a100";
  const absl::StatusOr<KnownWorkloads> known = Now(store.Load());
  ASSERT_TRUE(known.ok());
  EXPECT_EQ(known->workloads[0].members[0].at.holding.node, scheduler::kNone);
}

class LegacyFiles : public testing::Test {
 protected:
  void Write(const std::string& name, const std::string& text) { std::ofstream(folder_ / name) << text; }
  absl::StatusOr<KnownWorkloads> Import() {
    auto writes = gateway::control::ReadLegacyFiles(folder_.path(), cluster_);
    if (!writes.ok()) return writes.status();
    MemoryStore backend;
    if (!writes->empty() && !Now(backend.Commit(*std::move(writes))).ok())
      return absl::InternalError("not written");
    WorkloadStore store(backend, cluster_);
    return Now(store.Load());
  }

  TempDir folder_;
  scheduler::Cluster cluster_ = Machine();
};

constexpr std::string_view kSubmission =
    R"({"submission":"gang-3","number":0,"at_us":5,"user":"ada","file":"job.yaml","queue":"default",)"
    R"("tenant":"","text":"name: gang\ncommand: [x]\ndevices: [{kind: h100}]\n"})"
    "\n";

std::string JobLine(const std::string& id, const std::string& state) {
  return R"({"job":")" + id + R"(","of":"gang-3","element":0,"state":")" + state +
         R"(","since_us":7,"started_us":6,"why":"w","actor":"control","afterwards":"waits","attempt":1,)"
         R"("restarts":0,"resumes":false,"done_us":0,"members":[{"role":0,"rank":0,"node":"local",)"
         R"("cpu_milli":0,"memory_mib":0,"isolation":0,"devices":2,"milli":1000,"device_mib":0,)"
         R"("run":"j-gang-3-1-0"}],"before":[],"next":[]})"
         "\n";
}

TEST_F(LegacyFiles, JobsAndReplicasAreImportedWithTheirDevices) {
  Write("jobs.jsonl", "{\"last\":4}\n" + std::string(kSubmission) + JobLine("gang-3", "starting") +
                          JobLine("gang-3", "running") + R"({"job":"gang-3","of":"ga)");
  Write("replicas.json",
        R"({"replicas":[{"run":"r-m-1","model":"m","launched_us":9,"node":"local","cpu_milli":0,)"
        R"("memory_mib":0,"kind":"h100","devices":[3,4],"milli":1000,"device_mib":0}]})");
  const absl::StatusOr<KnownWorkloads> known = Import();
  ASSERT_TRUE(known.ok()) << known.status();
  EXPECT_EQ(known->last_number, 4u);
  ASSERT_EQ(known->workloads.size(), 2u);
  EXPECT_EQ(known->workloads[0].id, "gang-3");
  EXPECT_EQ(known->workloads[0].state, State::kRunning);
  EXPECT_EQ(known->workloads[0].of->number, 3u);
  EXPECT_EQ(known->workloads[0].members[0].at.holding.devices, 2u);
  EXPECT_EQ(known->workloads[1].id, "r-m-1");
  EXPECT_EQ(known->workloads[1].members[0].at.holding.devices, 24u);
}

TEST_F(LegacyFiles, StatesHaveTheirNewNames) {
  const std::vector<std::tuple<std::string, State, Outcome>> kCases = {
      {"pending", State::kPending, Outcome::kNone},
      {"starting", State::kPlaced, Outcome::kNone},
      {"saving", State::kSaving, Outcome::kNone},
      {"stopping", State::kDraining, Outcome::kNone},
      {"suspended", State::kStopped, Outcome::kSuspended},
      {"done", State::kStopped, Outcome::kDone},
      {"failed", State::kStopped, Outcome::kFailed},
      {"cancelled", State::kStopped, Outcome::kCancelled}};
  for (const auto& [word, state, outcome] : kCases) {
    Write("jobs.jsonl", std::string(kSubmission) + JobLine("gang-3", word));
    const absl::StatusOr<KnownWorkloads> known = Import();
    ASSERT_TRUE(known.ok()) << word << ": " << known.status();
    EXPECT_EQ(known->workloads[0].state, state) << word;
    EXPECT_EQ(known->workloads[0].outcome, outcome) << word;
  }
}

TEST_F(LegacyFiles, NoFilesAreNothingAndADamagedLineIsNamed) {
  EXPECT_TRUE(Import()->workloads.empty());
  Write("jobs.jsonl", "{\"last\":3}\n{\"job\":\"a-1\"}\n");
  const absl::Status damaged = Import().status();
  EXPECT_TRUE(absl::IsDataLoss(damaged));
  EXPECT_THAT(std::string(conf::Std(damaged.message())), HasSubstr("jobs.jsonl:2"));
}

}  // namespace
}  // namespace tests
