// Nodes and devices that operators have set aside.
#include "gateway/control/nodes/cordons.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gateway/control/workloads/grant.h"
#include "gateway/store/kinds.h"
#include "gateway/store/sqlite_store.h"
#include "tests/support/loop_test.h"
#include "tests/support/temp_dir.h"
#include "tests/unit/gateway/control/jobs/world.h"

namespace tests {
namespace {

using gateway::control::Cordon;
using gateway::control::Cordons;
using gateway::control::Planning;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

const conf::TimePoint kStart = conf::FromUnixMicros(1'700'000'000'000'000);

// One gateway's life over a store that outlives it.
struct Gateway {
  // `epoch`: of the term that it leads a shared store in; 0: it has the store to itself.
  Gateway(TestLoop& loop, const std::string& path, uint64_t epoch = 0)
      : store(*gateway::store::OpenSqliteStore(loop, {.file = {.path = path}})),
        planning(EightDevices(), kStart),
        workload_store(*store, planning.cluster()),
        context{.now = [] { return kStart; },
                .wake = [] {},
                .spawn = [&loop](gateway::net::Task<void> task) { loop.tasks.Spawn(std::move(task)); },
                .record = [this](gateway::ledger::Event event) -> gateway::net::Task<absl::Status> {
                  if (record_result.ok())
                    records.push_back(event.action + " " + event.subject + " by " + event.actor);
                  co_return record_result;
                },
                .launcher = nullptr,
                .planning = &planning,
                .store = &workload_store,
                .epoch = epoch,
                .shared = epoch != 0},
        cordons(loop, *store, context) {}
  ~Gateway() { cordons.Stop(); }

  // The devices that a new job of that many is given; none: it waits.
  std::vector<uint8_t> Place(const std::string& id, uint16_t devices) {
    scheduler::Job job;
    job.id = id;
    job.queue = "default";
    job.submitted = kStart;
    job.roles = {{.name = "member", .ask = {.devices = {{.kinds = {"h100"}, .count = devices}}}}};
    planning.Submit(std::move(job), kStart);
    return PlaceOf(id);
  }
  std::vector<uint8_t> PlaceOf(const std::string& id) {
    const std::optional<scheduler::Plan> plan = planning.Run(kStart);
    for (const scheduler::Action& action : plan ? plan->actions : std::vector<scheduler::Action>()) {
      if (action.job == id)
        return gateway::control::GrantOf(planning.cluster(), action.members.front().holding).devices;
    }
    return {};
  }

  std::unique_ptr<gateway::store::Store> store;
  Planning planning;
  gateway::control::WorkloadStore workload_store;
  std::vector<std::string> records;
  absl::Status record_result;
  const gateway::control::Context context;
  Cordons cordons;
};

Cordon Of(std::optional<uint8_t> device, const std::string& node = "local") {
  return {.node = node, .device = device, .reason = "its fan is replaced", .by = "ada", .since = kStart};
}

TEST(Cordon, ItsStoredTextIsTheSameInEveryRelease) {
  const Cordon cordon{.node = "node-7", .device = 3, .reason = "its fan", .by = "ada", .since = kStart};
  const std::string text = R"({"by":"ada","reason":"its fan","since_us":1700000000000000})";
  EXPECT_EQ(BodyOf(cordon), text);
  const absl::StatusOr<Cordon> read = gateway::control::ReadCordon("node-7/3", text);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(IdOf(*read), "node-7/3");
  EXPECT_EQ(BodyOf(*read), text);
  EXPECT_TRUE(gateway::control::ReadCordon("node-7", R"({"by":"","reason":"","since_us":0,"more":1})").ok());
  for (const char* body :
       {R"({"by":"ada","reason":"its fan"})", R"({"by":"","reason":1,"since_us":0})", "[]", ""}) {
    const absl::Status refused = gateway::control::ReadCordon("node-7", body).status();
    EXPECT_TRUE(absl::IsDataLoss(refused)) << body;
    EXPECT_THAT(std::string(refused.message()), HasSubstr("cordon node-7: "));
  }
}

TEST(Cordons, ACordonedDeviceTakesNothingNewUntilItIsLiftedAlsoAfterARestart) {
  const TempDir dir;
  tests::RunOnLoop([&](TestLoop& loop) -> gateway::net::Task<void> {
    {
      Gateway before(loop, dir / "state.db");
      EXPECT_TRUE((co_await before.cordons.Start()).ok());
      for (uint8_t device = 0; device < 6; ++device) {
        const absl::Status set = co_await before.cordons.Set(Of(device));
        EXPECT_TRUE(set.ok()) << set;
      }
      EXPECT_THAT(before.Place("j-1", 2), ElementsAre(6, 7));
      EXPECT_EQ(before.records.front(), "node.cordon local/0 by ada");
    }
    Gateway after(loop, dir / "state.db");
    EXPECT_TRUE((co_await after.cordons.Start()).ok());
    EXPECT_THAT(after.Place("j-2", 3), IsEmpty()) << "two devices are not cordoned";
    EXPECT_THAT(after.cordons.InWords().front(),
                HasSubstr("device 0 of local gets no new work: cordoned by ada: its fan is replaced"));
    const absl::Status lifted = co_await after.cordons.Lift(Of(3));
    EXPECT_TRUE(lifted.ok()) << lifted;
    EXPECT_THAT(after.PlaceOf("j-2"), ElementsAre(3, 6, 7));
    EXPECT_EQ(after.cordons.all().size(), 5u);
  });
}

TEST(Cordons, ACordonedNodeGetsNoNewWorkAndKeepsRunningWork) {
  const TempDir dir;
  tests::RunOnLoop([&](TestLoop& loop) -> gateway::net::Task<void> {
    Gateway gateway(loop, dir / "state.db");
    EXPECT_TRUE((co_await gateway.cordons.Start()).ok());
    EXPECT_THAT(gateway.Place("j-1", 2), testing::SizeIs(2));
    EXPECT_TRUE((co_await gateway.cordons.Set(Of(std::nullopt))).ok());
    EXPECT_THAT(gateway.Place("j-2", 1), IsEmpty());
    const std::optional<scheduler::Plan> plan = gateway.planning.Run(kStart);
    if (plan) EXPECT_THAT(plan->actions, IsEmpty());
    EXPECT_TRUE(gateway.planning.Knows("j-1"));
    EXPECT_TRUE((co_await gateway.cordons.Lift(Of(std::nullopt))).ok());
    EXPECT_EQ(gateway.planning.planner().state().health(0), scheduler::Health::kHealthy);
  });
}

TEST(Cordons, ALeaderRecordsOneInTheSharedStoreAndADeposedLeaderNone) {
  const TempDir dir;
  tests::RunOnLoop([&](TestLoop& loop) -> gateway::net::Task<void> {
    Gateway leader(loop, dir / "state.db", 1);
    EXPECT_TRUE((co_await leader.cordons.Start()).ok());
    EXPECT_TRUE((co_await leader.store->Campaign("a", "a", std::chrono::seconds(10))).ok());
    EXPECT_TRUE((co_await leader.cordons.Set(Of(1))).ok());
    const auto events = co_await leader.store->List(gateway::store::kLedgerEvent);
    EXPECT_TRUE(events.ok() && events->objects.size() == 1);
    EXPECT_TRUE((co_await leader.store->Resign("a", 1)).ok());
    EXPECT_TRUE(absl::IsUnavailable(co_await leader.cordons.Set(Of(2))));
    EXPECT_TRUE(absl::IsUnavailable(co_await leader.cordons.Lift(Of(1))));
    const auto after = co_await leader.store->List(gateway::store::kLedgerEvent);
    EXPECT_TRUE(after.ok() && after->objects.size() == 1);
    EXPECT_THAT(leader.records, IsEmpty());
    EXPECT_EQ(leader.cordons.all().size(), 1u);
  });
}

TEST(Cordons, RefusesUnknownNodesAndLiftingWithoutACordon) {
  const TempDir dir;
  tests::RunOnLoop([&](TestLoop& loop) -> gateway::net::Task<void> {
    Gateway gateway(loop, dir / "state.db");
    EXPECT_TRUE((co_await gateway.cordons.Start()).ok());
    const absl::Status node = co_await gateway.cordons.Set(Of(std::nullopt, "elsewhere"));
    EXPECT_TRUE(absl::IsNotFound(node)) << node;
    const absl::Status device = co_await gateway.cordons.Set(Of(8));
    EXPECT_TRUE(absl::IsNotFound(device)) << device;
    EXPECT_THAT(std::string(device.message()), HasSubstr("the devices 0 to 7"));
    EXPECT_TRUE(absl::IsFailedPrecondition(co_await gateway.cordons.Lift(Of(1))));
    gateway.record_result = absl::UnavailableError("the disk is full");
    EXPECT_FALSE((co_await gateway.cordons.Set(Of(1))).ok());
    EXPECT_THAT(gateway.cordons.all(), IsEmpty()) << "what the ledger does not have is not done";
  });
}

TEST(Cordons, ANodeStaysCordonedWhateverItsLauncherSaysOfIt) {
  Planning planning(EightDevices(), kStart);
  planning.UpdateCordons({Of(std::nullopt), Of(2)}, kStart);
  (void)planning.planner();
  planning.UpdateNodes({{.name = "local", .kind = "h100", .devices = 8}}, kStart);
  EXPECT_EQ(planning.planner().state().health(0), scheduler::Health::kSuspect);
  planning.UpdateFaults({{.node = "local", .device = 5, .why = "Xid 79"}}, kStart);
  EXPECT_EQ(planning.planner().state().health(0), scheduler::Health::kSuspect);
  for (const size_t device : {size_t{2}, size_t{5}})
    EXPECT_FALSE(planning.planner().state().node(0).device[device].healthy);
  planning.UpdateCordons({}, kStart);
  EXPECT_EQ(planning.planner().state().health(0), scheduler::Health::kHealthy);
  EXPECT_TRUE(planning.planner().state().node(0).device[2].healthy);
  EXPECT_FALSE(planning.planner().state().node(0).device[5].healthy);
}

}  // namespace
}  // namespace tests
