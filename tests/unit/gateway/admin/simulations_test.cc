#include "gateway/admin/simulations.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/gateway/admin/world.h"
#include "tests/unit/scheduler/clusters.h"

namespace {

using gateway::Authority;
using gateway::admin::Answered;
using gateway::admin::Simulations;
using gateway::admin::WhatIf;
using gateway::admin::answers::Simulation;
using gateway::net::Task;
using plugins::auth::Role;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using tests::AdminClient;
using tests::Reply;
using tests::SignedIn;
using tests::WithAdmin;
using tests::World;

constexpr const char* kSimulations = "/admin/v1/simulations";
const conf::TimePoint kStart = conf::TimePoint(std::chrono::hours(500'000));

scheduler::JobState Waiting(std::string id, std::string tenant) {
  scheduler::JobState state;
  state.job.id = std::move(id);
  state.job.queue = "main";
  state.job.tenant = std::move(tenant);
  state.job.submitted = kStart;
  state.job.estimate = std::chrono::hours(1);
  state.job.roles = {{.name = "worker", .ask = scheduler::testing::Devices(8)}};
  return state;
}

// Two jobs of two tenants wait for one node; the question adds one.
WhatIf OneMoreJob(Authority authority) {
  WhatIf asked{.question = "the job try", .actor = "person:ada", .authority = std::move(authority)};
  auto& plan = asked.plan.emplace();
  plan.today.as_of = kStart;
  plan.today.cluster = scheduler::testing::EightWay(1);
  plan.today.queues = {{.name = "main", .parent = ""}};
  plan.today.jobs = {Waiting("secret-job", "other"), Waiting("own-job", "demo")};
  plan.changed = plan.today;
  plan.changed.jobs.push_back(Waiting("your-try", "demo"));
  plan.asked = {"your-try"};
  return asked;
}

std::vector<std::string> JobsOf(const Simulation& answer) {
  std::vector<std::string> ids;
  for (const auto& job : answer.jobs) ids.push_back(job.id);
  return ids;
}

bool GoOn(double) {
  return true;
}

TEST(Simulations, ALeadSeesOwnJobsOnly) {
  const Simulation lead = Answered(OneMoreJob(Authority({{Role::kLead, "demo"}})), GoOn);
  EXPECT_THAT(JobsOf(lead), ElementsAre("own-job", "your-try"));
  EXPECT_THAT(conf::ToJsonText(lead), Not(HasSubstr("secret-job")));
  const Simulation all = Answered(OneMoreJob(Authority({{Role::kOperator, {}}})), GoOn);
  EXPECT_THAT(JobsOf(all), ElementsAre("secret-job", "own-job", "your-try"));
}

TEST(Simulations, TheAskedJobHasASentence) {
  const Simulation answer = Answered(OneMoreJob(Authority({{Role::kOperator, {}}})), GoOn);
  ASSERT_FALSE(answer.sentences.empty());
  EXPECT_THAT(answer.sentences.front(), HasSubstr("your-try would start"));
  EXPECT_TRUE(answer.jobs.back().asked);
  EXPECT_FALSE(answer.jobs.back().today);
}

TEST(Simulations, ThoseOfOthersAreNotShown) {
  Simulations simulations;
  const auto id = simulations.Start(OneMoreJob(Authority({{Role::kLead, "demo"}})), kStart);
  ASSERT_TRUE(id.ok()) << id.status();
  EXPECT_TRUE(simulations.Show(*id, "person:ada", false));
  EXPECT_FALSE(simulations.Show(*id, "person:bob", false));
  EXPECT_TRUE(simulations.Show(*id, "person:bob", true));
  EXPECT_THAT(simulations.List("person:bob", false), IsEmpty());
  EXPECT_FALSE(simulations.Cancel(*id, "person:bob", false));
  EXPECT_TRUE(simulations.Cancel(*id, "person:ada", false));
}

TEST(Simulations, ALeadChangesNothingOfTheSystem) {
  World world;
  Simulations simulations;
  world.operations.simulations = &simulations;
  WithAdmin(world, [&](AdminClient& client) -> Task<void> {
    const SignedIn lead = co_await client.SignIn({.id = "person:l", .roles = {{Role::kLead, "demo"}}});
    for (const char* const body : {R"({"add_nodes": 1})", R"({"quotas": ["a=1"]})", R"({"policy": "x"})",
                                   R"({"scaling": "model: chat-small"})"}) {
      const Reply reply = co_await client.CallAs(lead, "POST", kSimulations, body);
      EXPECT_EQ(reply.status, 403) << body;
    }
    const SignedIn member = co_await client.SignIn({.id = "person:m", .roles = {{Role::kMember, "demo"}}});
    EXPECT_EQ((co_await client.CallAs(member, "POST", kSimulations, "{}")).status, 403);
    EXPECT_EQ((co_await client.CallAs(lead, "GET", std::string(kSimulations) + "/sim-9")).status, 404);
  });
}

}  // namespace
