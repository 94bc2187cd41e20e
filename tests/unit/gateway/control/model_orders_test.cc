// Models that operators have paused or held.
#include "gateway/control/models/model_orders.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gateway/store/sqlite_store.h"
#include "tests/support/loop_test.h"
#include "tests/support/temp_dir.h"

namespace tests {
namespace {

using gateway::ModelSwitches;
using gateway::control::ModelOrder;
using gateway::control::ModelOrders;
using gateway::control::OrdersOfModel;
using gateway::control::ReadOrders;

const conf::TimePoint kStart = conf::FromUnixMicros(1'700'000'000'000'000);

// One gateway's life over a store that outlives it.
struct Gateway {
  Gateway(TestLoop& loop, const std::string& path)
      : store(*gateway::store::OpenSqliteStore(loop, {.file = {.path = path}})),
        orders(loop, *store, switches,
               ModelOrders::Environment{
                   .record = [this](gateway::ledger::Event event) -> gateway::net::Task<absl::Status> {
                     if (record_result.ok()) records.push_back(event.action + " by " + event.actor);
                     co_return record_result;
                   }}) {}
  ~Gateway() { orders.Stop(); }

  std::unique_ptr<gateway::store::Store> store;
  ModelSwitches switches;
  std::vector<std::string> records;
  absl::Status record_result;
  ModelOrders orders;
};

ModelOrder Of(const std::string& reason) {
  return {.by = "ada", .reason = reason, .since = kStart};
}

TEST(ModelOrders, APauseOutlivesTheGatewayUntilItIsLifted) {
  const TempDir dir;
  tests::RunOnLoop([&](TestLoop& loop) -> gateway::net::Task<void> {
    {
      Gateway before(loop, dir / "state.db");
      EXPECT_TRUE((co_await before.orders.Start()).ok());
      const absl::Status paused = co_await before.orders.Pause("chat", Of("new weights"));
      EXPECT_TRUE(paused.ok()) << paused;
      EXPECT_TRUE(before.switches.Get("chat")->paused());
      EXPECT_FALSE(before.switches.Get("other")->paused());
    }
    Gateway after(loop, dir / "state.db");
    EXPECT_TRUE((co_await after.orders.Start()).ok());
    EXPECT_TRUE(after.switches.Get("chat")->paused());
    EXPECT_EQ(after.switches.Get("chat")->why(), "new weights");
    EXPECT_TRUE((co_await after.orders.Resume("chat", Of(""))).ok());
    EXPECT_FALSE(after.switches.Get("chat")->paused());
    EXPECT_TRUE(absl::IsFailedPrecondition(co_await after.orders.Resume("chat", Of(""))));
    EXPECT_EQ(after.records, std::vector<std::string>{"model.resume by ada"});
  });
}

TEST(ModelOrders, AHoldEndsWithItsTimeAndLeavesAPauseAlone) {
  const TempDir dir;
  tests::RunOnLoop([&](TestLoop& loop) -> gateway::net::Task<void> {
    Gateway gateway(loop, dir / "state.db");
    EXPECT_TRUE((co_await gateway.orders.Start()).ok());
    ModelOrder hold = Of("load test");
    hold.replicas = 3;
    hold.until = kStart + std::chrono::minutes(30);
    EXPECT_TRUE((co_await gateway.orders.Pause("chat", Of(""))).ok());
    EXPECT_TRUE((co_await gateway.orders.Hold("chat", hold)).ok());
    const ModelOrder* const held = gateway.orders.Held("chat", kStart);
    EXPECT_NE(held, nullptr);
    if (held != nullptr) EXPECT_EQ(held->replicas, 3u);
    EXPECT_EQ(gateway.orders.Held("chat", kStart + std::chrono::minutes(30)), nullptr);
    EXPECT_TRUE((co_await gateway.orders.Release("chat", Of(""))).ok());
    EXPECT_EQ(gateway.orders.Held("chat", kStart), nullptr);
    EXPECT_NE(gateway.orders.Paused("chat"), nullptr);
  });
}

TEST(ModelOrders, AnOrderIsCarriedOutOnlyWhenTheLedgerHasIt) {
  const TempDir dir;
  tests::RunOnLoop([&](TestLoop& loop) -> gateway::net::Task<void> {
    Gateway gateway(loop, dir / "state.db");
    EXPECT_TRUE((co_await gateway.orders.Start()).ok());
    gateway.record_result = absl::UnavailableError("the disk is full");
    EXPECT_FALSE((co_await gateway.orders.Pause("chat", Of(""))).ok());
    EXPECT_FALSE(gateway.switches.Get("chat")->paused());
  });
}

TEST(ModelOrder, IsReadAsItWasWrittenAndFromTheLedger) {
  ModelOrder hold = Of("load test");
  hold.replicas = 2;
  hold.until = kStart + std::chrono::hours(1);
  const OrdersOfModel orders{.paused = Of("new weights"), .held = hold};
  const auto read = ReadOrders("chat", BodyOf(orders));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(*read, orders);
  EXPECT_FALSE(ReadOrders("chat", "{}").ok());

  OrdersOfModel told;
  for (const auto& [order, action] : {std::pair(*orders.paused, gateway::control::kPauseAction),
                                      std::pair(hold, gateway::control::kHoldAction)}) {
    const std::string detail = DetailOf(order, action);
    EXPECT_TRUE(TakeRecord({.action = action, .actor = "ada", .detail = detail, .at = kStart}, told));
  }
  EXPECT_EQ(told, orders);
  EXPECT_TRUE(TakeRecord({.action = gateway::control::kReleaseAction, .actor = {}, .detail = {}}, told));
  EXPECT_EQ(told.held, std::nullopt);
  EXPECT_FALSE(TakeRecord({.action = "replica.launch", .actor = {}, .detail = {}}, told));
  EXPECT_EQ(WhyHeld(*orders.held), "held at 2 replicas by ada until 2023-11-14T23:13:20Z: load test");
}

}  // namespace
}  // namespace tests
