// Whom runs become: users that are handed out to tenants are one tenant's at a time.
#include "gateway/control/launching/run_users.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/gateway/config/config_fixture.h"

namespace gateway::control {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

absl::StatusOr<RunUsers> Of(const std::string& runs,
                            const std::string& tenants = "{name: a, models: [small]}",
                            bool stays_root = false) {
  LoadResult loaded =
      ParseConfig(With({{"models", "[{name: small, endpoints: [{url: http://h:1, engine: vllm}]}]"},
                        {"tenants", fmt::format("[{}]", tenants)},
                        {"scaling", fmt::format("{{runs: {}}}", runs)}}),
                  "t.yaml", FakeSources());
  for (const conf::Problem& problem : loaded.problems) ADD_FAILURE() << conf::ToString(problem);
  return RunUsers::Of(*loaded.config, true, stays_root);
}

TEST(RunUsers, ATenantHasAUserOfItsOwnWhileOneOfItsRunsLives) {
  const absl::StatusOr<RunUsers> users = Of("{user: \"71000\", users: \"71001..71003\"}");
  ASSERT_TRUE(users.ok()) << users.status();
  EXPECT_THAT(users->names(), ElementsAre("71000", "71001", "71002", "71003"));
  EXPECT_EQ(users->replicas(), "71000");
  EXPECT_EQ(users->trouble(), "");
  EXPECT_EQ(*users->OfJob("", {}), "71000") << "an operator's own";
  const std::string a = *users->OfJob("a", {});
  EXPECT_NE(a, "71000");
  EXPECT_EQ(*users->OfJob("a", {}), a) << "it gets the same again";
  std::vector<UserInUse> in_use{{"a", a}};
  const std::string b = *users->OfJob("b", in_use);
  EXPECT_NE(b, a);
  in_use.push_back({"b", b});
  const std::string below = *users->OfJob("a/below", in_use);
  EXPECT_NE(below, a);
  EXPECT_NE(below, b);
  in_use.push_back({"a/below", below});
  EXPECT_EQ(*users->OfJob("a", in_use), a);
  const absl::Status none = users->OfJob("c", in_use).status();
  EXPECT_TRUE(absl::IsUnavailable(none)) << none;
  EXPECT_TRUE(users->MayRun("c").ok()) << "it waits";
  // What a run without a record has become is nobody else's.
  EXPECT_TRUE(absl::IsUnavailable(
      users->OfJob("c", std::vector<UserInUse>{{"", "71001"}, {"", "71002"}, {"", "71003"}}).status()));
}

TEST(RunUsers, ATenantsOwnUserIsHandedToNoOther) {
  const std::string tenants = "{name: a, models: [small], run_as: \"71009\"}, {name: b, parent: a}";
  const absl::StatusOr<RunUsers> users = Of("{user: \"71000\", users: [\"71001\", \"71002\"]}", tenants);
  ASSERT_TRUE(users.ok()) << users.status();
  EXPECT_EQ(*users->OfJob("a/b", {}), "71009");
  for (const auto& [runs, what] : std::vector<std::pair<std::string, std::string>>{
           {"{user: \"71001\", users: [\"71001\"]}",
            "scaling.runs.users: 71001 is the same user as the user of all"},
           {"{user: \"71000\", users: [\"71009\"]}", "run_as of tenant a: 71009 is the same user as"},
           {"{user: \"71000\", users: [no-such-user-3]}", "scaling.runs.users: this machine has no user"},
           {"{user: \"71000\", users: [\"0\"]}", "runs cannot be root's"}})
    EXPECT_THAT(std::string(Of(runs, tenants).status().message()), HasSubstr(what));
}

TEST(RunUsers, WarnsWhenTenantsShareAUser) {
  EXPECT_THAT(Of("{user: \"71000\"}")->trouble(), HasSubstr("name users for them in scaling.runs.users"));
  EXPECT_EQ(Of("{user: \"71000\"}", "{name: a, models: [small], run_as: \"71009\"}, {name: b, parent: a}")
                ->trouble(),
            "");
}

TEST(RunUsers, AGatewayThatStaysRootIsTrouble) {
  const std::string apart = "{user: \"71000\", users: \"71001..71003\"}";
  const std::string tenants = "{name: a, models: [small]}";
  EXPECT_EQ(Of(apart, tenants, false)->trouble(), "");
  EXPECT_THAT(Of(apart, tenants, true)->trouble(), HasSubstr("server.user"));
  EXPECT_THAT(Of("{same_user: true}", tenants, true)->trouble(),
              testing::AllOf(HasSubstr("as scaling.runs.same_user says"), HasSubstr("server.user")));
}

}  // namespace
}  // namespace gateway::control
