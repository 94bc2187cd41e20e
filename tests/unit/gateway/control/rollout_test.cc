#include "gateway/control/models/rollout.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gateway/control/models/adapter.h"
#include "gateway/control/replicas/replica_endpoint.h"

namespace gateway::control {
namespace {

const conf::TimePoint kBegan = conf::FromUnixMicros(1'700'000'000'000'000);

config::ModelPolicy TwoVersions() {
  config::ModelPolicy policy;
  policy.scaling.model = "chat";
  policy.version = "v1";
  policy.replica.emplace().command = {"old"};
  policy.rollout.emplace().version = "v2";
  policy.rollout->replica.command = {"new"};
  return policy;
}

Rollout Of(RolloutState state) {
  return {.model = "chat",
          .version = "v2",
          .state = state,
          .step = 1,
          .open = true,
          .percent = 25,
          .began = kBegan,
          .since = kBegan + std::chrono::seconds(5),
          .why = "within the bounds",
          .by = "control"};
}

TEST(Rollout, EachVersionHasItsRoleWhileItRunsAndAfterItsEnd) {
  using enum VersionRole;
  const config::ModelPolicy policy = TwoVersions();
  struct Case {
    const char* what;
    std::optional<Rollout> rollout;
    VersionRole old, fresh;
    const char* in_force;
  };
  Rollout another = Of(RolloutState::kPromoted);
  another.version = "v0";
  for (const Case& one :
       {Case{"not begun", {}, kServes, kNew, "v1"}, Case{"of another version", another, kServes, kNew, "v1"},
        Case{"running", Of(RolloutState::kRunning), kServes, kNew, "v1"},
        Case{"promoted", Of(RolloutState::kPromoted), kLeaves, kServes, "v2"},
        Case{"rolled back", Of(RolloutState::kRolledBack), kServes, kLeaves, "v1"},
        Case{"aborted", Of(RolloutState::kAborted), kServes, kLeaves, "v1"}}) {
    const Rollout* const rollout = one.rollout ? &*one.rollout : nullptr;
    EXPECT_EQ(RoleOf(policy, rollout, "v1"), one.old) << one.what;
    EXPECT_EQ(RoleOf(policy, rollout, ""), one.old) << one.what << ": a replica of before versions had names";
    EXPECT_EQ(RoleOf(policy, rollout, "v2"), one.fresh) << one.what;
    EXPECT_EQ(VersionInForce(policy, rollout), one.in_force) << one.what;
  }
}

TEST(Rollout, WithoutASectionEveryReplicaServes) {
  config::ModelPolicy policy = TwoVersions();
  policy.rollout.reset();
  policy.version = "v2";
  const Rollout past = Of(RolloutState::kPromoted);
  for (const char* const version : {"", "v1", "v2"})
    EXPECT_EQ(RoleOf(policy, &past, version), VersionRole::kServes) << version;
  EXPECT_EQ(VersionInForce(policy, &past), "v2");
}

TEST(Rollout, EachVersionIsStartedByItsOwnTemplate) {
  const config::ModelPolicy policy = TwoVersions();
  EXPECT_EQ(config::TemplateOf(policy, "v1").command.front(), "old");
  EXPECT_EQ(config::TemplateOf(policy, "v2").command.front(), "new");
  EXPECT_EQ(config::PolicyOfVersion(policy, "v2").replica->command.front(), "new");
}

TEST(Rollout, ANewVersionHasATrackAndOneThatLeavesTakesNothing) {
  const auto endpoint = std::make_shared<const config::Endpoint>();
  EXPECT_EQ(InRole(endpoint, VersionRole::kServes, "v1"), endpoint);
  const auto fresh = InRole(endpoint, VersionRole::kNew, "v2");
  EXPECT_EQ(fresh->track, "v2");
  EXPECT_EQ(fresh->weight, 1u);
  EXPECT_EQ(InRole(fresh, VersionRole::kServes, "v2")->track, "") << "it was promoted";
  EXPECT_EQ(InRole(fresh, VersionRole::kLeaves, "v2")->weight, 0u);
}

TEST(Rollout, IsReadAsItWasWrittenAndFromTheLedger) {
  const Rollout rollout = Of(RolloutState::kRolledBack);
  EXPECT_EQ(*ReadRollout("chat", BodyOf(rollout)), rollout);
  for (const char* const body : {"", "{}", "[]", R"({"version":"v2"})"})
    EXPECT_TRUE(absl::IsDataLoss(ReadRollout("chat", body).status())) << body;

  std::map<std::string, Rollout> past;
  const auto take = [&](std::string_view action, const Rollout& of) {
    return TakeRecord(
        RolloutRecord{
            .action = action, .actor = of.by, .subject = of.model, .detail = DetailOf(of), .at = of.since},
        past);
  };
  EXPECT_FALSE(take("replica.launch", rollout));
  Rollout begun = rollout;
  begun.since = kBegan;
  EXPECT_TRUE(take("rollout.begin", begun));
  EXPECT_EQ(past["chat"].state, RolloutState::kRunning);
  EXPECT_TRUE(take("rollout.roll_back", rollout));
  EXPECT_EQ(past["chat"].state, RolloutState::kRolledBack);
  EXPECT_EQ(past["chat"].began, kBegan);
  EXPECT_EQ(past["chat"].percent, 25);
}

TEST(Adapter, IsRebuiltFromTheLedgerUntilItIsUnloaded) {
  std::map<std::string, Adapter> past;
  const Adapter sql{.base = "chat", .name = "sql", .source = "/adapters/sql", .by = "ada", .since = kBegan};
  const auto take = [&](std::string_view action) {
    return TakeRecord(
        AdapterRecord{
            .action = action, .actor = "ada", .subject = "sql", .detail = DetailOf(sql), .at = kBegan},
        past);
  };
  EXPECT_FALSE(take("model.pause"));
  EXPECT_TRUE(take(kLoadAdapterAction));
  EXPECT_TRUE(take(kDisplacedAdapterAction));
  ASSERT_EQ(past.size(), 1u);
  EXPECT_EQ(past.begin()->second, sql);
  EXPECT_TRUE(take(kUnloadAdapterAction));
  EXPECT_TRUE(past.empty());
}

}  // namespace
}  // namespace gateway::control
