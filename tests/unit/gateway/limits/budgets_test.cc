// Budgets and limits of keys that are created, replaced and revoked, and after reloads.
#include "gateway/limits/budgets.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gateway/control/metering/device_budgets.h"
#include "gateway/shard/principals.h"
#include "gateway/shard/runtime.h"
#include "router/limits/reservation.h"
#include "tests/unit/gateway/admin/world.h"

namespace gateway {
namespace {

namespace limits = router::limits;
using limits::Dimension;
using limits::Period;
using tests::World;

struct BudgetsTest : testing::Test {
  std::string MakeKey(const std::string& key_limits) {
    plugins::auth::KeySpec spec;
    spec.tenant = "demo/search";
    spec.limits = key_limits;
    return world.Await(world.shared.keys->Create(spec, now))->record->id;
  }
  std::string Rotate(const std::string& id) {
    plugins::auth::Rotation rotation;
    rotation.overlap = std::chrono::hours(1);
    return world.Await(world.shared.keys->Rotate(id, rotation, now))->record->id;
  }
  void Revoke(const std::string& id) {
    ASSERT_TRUE(world.Await(world.shared.keys->Revoke(id, {"test"}, "", now)).ok());
  }
  std::shared_ptr<const PrincipalIndex> Publish(conf::Duration later = {}) {
    return BuildPrincipals(*world.runtime, world.shared.keys->Table(), world.shared.limits, now + later);
  }
  void Serve(const std::string& key, conf::TimePoint opened, uint64_t tokens) {
    ledger::OpenRecord open{.time_us = conf::ToUnixMicros(opened),
                            .request = "req",
                            .tenant = "demo/search",
                            .key = key,
                            .model = "chat-small"};
    auto ticket = world.shared.ledger->Shard(0).Open(open);
    ASSERT_TRUE(ticket);
    ledger::CloseRecord close;
    close.time_us = conf::ToUnixMicros(now);
    close.counts.input = tokens;
    close.counts.cost_micro_usd = static_cast<int64_t>(tokens);
    ticket->Close(close);
  }
  absl::Status Restore(const std::set<std::string>& known = {}) {
    return RestoreBudgets(BudgetsBeside(world.shared.limits, known), *world.shared.ledger, world.ledger_dir(),
                          *world.shared.keys->Table(), now);
  }
  int64_t Used(const std::string& scope, Dimension dimension) {
    for (const limits::LimitState& limit : world.shared.limits.Snapshot(now)) {
      if (limit.scope == scope && limit.dimension == dimension) return limit.used;
    }
    ADD_FAILURE() << scope << " has no such limit";
    return -1;
  }
  std::vector<std::string> Scopes() {
    std::vector<std::string> scopes;
    for (const limits::LimitState& limit : world.shared.limits.Snapshot(now)) scopes.push_back(limit.scope);
    return scopes;
  }
  absl::Status Configure(std::vector<limits::NodeSpec> nodes) { return world.shared.limits.Update(nodes); }

  World world;
  const conf::TimePoint now = net::Now();
};

TEST_F(BudgetsTest, AKeyThatReplacesAnotherSharesItsLimitsAndContinuesItsBudget) {
  const std::string first = MakeKey(R"({"concurrency": 1, "budget": {"tokens": 100, "period": "month"}})");
  const std::string second = Rotate(first);
  const std::string third = Rotate(second);
  const auto principals = Publish();
  const limits::NodeRef node = (*principals->ForKey(first))->node;
  EXPECT_EQ(node.path(), "demo/search/" + first);
  EXPECT_EQ((*principals->ForKey(third))->node.path(), node.path());
  auto held = limits::Reserve((*principals->ForKey(second))->node, {}, {}, now);
  ASSERT_TRUE(std::holds_alternative<limits::Grant>(held));
  EXPECT_TRUE(std::holds_alternative<limits::Refusal>(
      limits::Reserve((*principals->ForKey(third))->node, {}, {}, now)))
      << "the old and the new key share one limit of concurrency";
  std::get<limits::Grant>(held).reservation.Refund();

  Serve(first, now, 10);
  Serve(second, now, 20);
  Serve(third, now, 40);
  Serve("key_of_another", now, 80);
  ASSERT_TRUE(Restore().ok());
  EXPECT_EQ(Used("demo/search/" + first, Dimension::kTokenBudget), 70);
  EXPECT_EQ(Used("demo", Dimension::kBudget), 150);
}

TEST_F(BudgetsTest, KeysThatNoLongerWorkLeaveTheTree) {
  const std::string limit = R"({"concurrency": 1})";
  const std::string stays = MakeKey(limit);
  const std::string revoked = MakeKey(limit);
  const std::string replaced = MakeKey(limit);
  const std::string fresh = Rotate(replaced);
  const auto before = Publish();
  auto running = limits::Reserve((*before->ForKey(revoked))->node, {}, {}, now);
  ASSERT_TRUE(std::holds_alternative<limits::Grant>(running));
  EXPECT_THAT(Scopes(), testing::IsSupersetOf(
                            {"demo/search/" + stays, "demo/search/" + revoked, "demo/search/" + replaced}));
  Revoke(revoked);
  const auto after = Publish();
  EXPECT_THAT(Scopes(), testing::Not(testing::Contains("demo/search/" + revoked)));
  EXPECT_EQ(after->ForKey(revoked), nullptr);
  std::get<limits::Grant>(running).reservation.Settle({});

  const auto later = Publish(std::chrono::hours(2));
  EXPECT_EQ(later->ForKey(replaced), nullptr) << "its overlap is over";
  EXPECT_EQ((*later->ForKey(fresh))->node.path(), "demo/search/" + replaced)
      << "the new key continues its limits";
  EXPECT_THAT(Scopes(), testing::IsSupersetOf({"demo/search/" + stays, "demo/search/" + replaced}));
  Revoke(fresh);
  Publish(std::chrono::hours(2));
  EXPECT_THAT(Scopes(), testing::Not(testing::Contains("demo/search/" + replaced)));
}

TEST_F(BudgetsTest, ABudgetThatAReloadAddsCountsEarlierAndConcurrentSpending) {
  Serve("key_1", now, 30);
  const limits::LimitSpec known{Dimension::kBudget, 1000, Period::kDay, ""};
  const limits::LimitSpec added{Dimension::kTokenBudget, 100, Period::kMonth, ""};
  ASSERT_TRUE(Configure({{"demo", {known}}}).ok());
  const std::set<std::string> before = BudgetIds(world.shared.limits);
  ASSERT_TRUE(Configure({{"demo", {known, added}}}).ok());
  ASSERT_TRUE(Restore(before).ok());
  EXPECT_EQ(Used("demo", Dimension::kTokenBudget), 30);
  EXPECT_EQ(Used("demo", Dimension::kBudget), 0) << "a budget that existed before counts by itself";

  ASSERT_TRUE(Configure({{"demo", {known}}}).ok());
  Serve("key_1", now, 40);
  ASSERT_TRUE(Configure({{"demo", {known, added}}}).ok());
  ASSERT_TRUE(Restore(before).ok());
  EXPECT_EQ(Used("demo", Dimension::kTokenBudget), 70) << "removed and added again";
  ASSERT_TRUE(Restore(before).ok());
  EXPECT_EQ(Used("demo", Dimension::kTokenBudget), 70) << "a second time changes nothing";
}

TEST_F(BudgetsTest, ARequestCountsInThePeriodOfItsAdmission) {
  ASSERT_TRUE(Configure({{"demo", {{Dimension::kTokenBudget, 100, Period::kMonth, ""}}}}).ok());
  const conf::TimePoint begin = limits::BoundsOf(Period::kMonth, now).start;
  Serve("key_1", begin - std::chrono::seconds(1), 10);
  Serve("key_1", begin, 1);
  ASSERT_TRUE(Restore().ok());
  EXPECT_EQ(Used("demo", Dimension::kTokenBudget), 1);
}

TEST_F(BudgetsTest, DeviceTimeIsRestoredByKindAndThenCharged) {
  constexpr int64_t kMuch = 1'000'000'000;
  ASSERT_TRUE(Configure({{"demo", {{Dimension::kDeviceBudget, kMuch, Period::kMonth, "", "h100"}}},
                         {"demo/search", {{Dimension::kDeviceBudget, kMuch, Period::kMonth, ""}}}})
                  .ok());
  const auto held = [&](const std::string& tenant, const std::string& model, const std::string& kind,
                        int64_t us) {
    ledger::DeviceRecord record;
    record.from_us = conf::ToUnixMicros(now);
    record.until_us = record.from_us + 60'000'000;
    record.tenant = tenant;
    record.model = model;
    record.job = model.empty() ? "train-1" : "";
    record.device = kind;
    record.device_us = record.held_us = us;
    return record;
  };
  ASSERT_TRUE(
      world.shared.ledger
          ->Append(std::vector<ledger::DeviceRecord>{
              held("demo/search", "chat-small", "h100", 2'500'000),
              held("demo/search", "chat-small", "ascend-910b", 1'000'000),
              held("demo", "", "h100", 4'000'000), held(std::string(ledger::kIdle), "chat-small", "h100", 9)})
          .ok());
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(Restore().ok());
    EXPECT_EQ(Used("demo", Dimension::kDeviceBudget), 6500);
    EXPECT_EQ(Used("demo/search", Dimension::kDeviceBudget), 3500);
  }
  DeviceCharges charges(world.shared.limits);
  const std::vector<ledger::DeviceRecord> little = {
      held("demo/search", "chat-small", "h100", 700),
      held(std::string(ledger::kIdle), "chat-small", "h100", 700)};
  for (int i = 0; i < 10; ++i) charges.Charge(little, now);
  EXPECT_EQ(Used("demo", Dimension::kDeviceBudget), 6507) << "rounding loses nothing";
  EXPECT_EQ(WhyDevicesUsedUp(world.shared.limits, "demo/search", std::vector<std::string>{"h100"}, now), "");
  charges.Charge(std::vector<ledger::DeviceRecord>{held("demo/search", "", "h100", kMuch * 1000)}, now);
  EXPECT_THAT(WhyDevicesUsedUp(world.shared.limits, "demo/search", std::vector<std::string>{"h100"}, now),
              testing::HasSubstr("; it starts again at "));
}

}  // namespace
}  // namespace gateway
