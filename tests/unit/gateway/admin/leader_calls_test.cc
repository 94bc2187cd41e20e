#include "gateway/admin/leader_calls.h"

#include <gtest/gtest.h>

#include <set>
#include <string_view>

#include "gateway/admin/route.h"
#include "gateway/store/kinds.h"
#include "tests/support/loop_test.h"
#include "tests/support/memory_store.h"

namespace gateway::admin {
namespace {

using plugins::auth::Right;
using plugins::auth::Role;
using tests::Eventually;
using tests::MemoryStore;
using tests::RunOnLoop;
using tests::TestLoop;

PassedCall Some() {
  return {
      .request_id = "req_1",
      .method = net::http::Verb::post,
      .path = "/admin/v1/jobs/a:cancel",
      .query = "limit=3",
      .body = R"({"job":"x"})",
      .caller = {.kind = Caller::Kind::kPerson,
                 .actor = "person:1",
                 .authority = Authority({{Role::kLead, "acme"}, {Role::kViewer, ""}}, {Right::kSubmitJobs}),
                 .name = "Ada",
                 .session = "s1",
                 .csrf = "secret",
                 .browser = true}};
}

TEST(LeaderCalls, PassWhoCallsAndNoCredential) {
  const std::string body = BodyOf(Some());
  EXPECT_EQ(body.find("secret"), std::string::npos);
  const absl::StatusOr<PassedCall> call = ReadPassedCall(body);
  ASSERT_TRUE(call.ok()) << call.status();
  EXPECT_EQ(call->method, net::http::Verb::post);
  EXPECT_EQ(call->path, "/admin/v1/jobs/a:cancel");
  EXPECT_EQ(call->query, "limit=3");
  EXPECT_EQ(call->body, R"({"job":"x"})");
  EXPECT_EQ(call->caller.actor, "person:1");
  EXPECT_EQ(call->caller.authority.roles(), Some().caller.authority.roles());
  EXPECT_EQ(call->caller.authority.rights(), Some().caller.authority.rights());
  EXPECT_FALSE(call->caller.browser);
}

TEST(LeaderCalls, ACallOfARoleThatIsNotKnownIsRefused) {
  std::string body = BodyOf(Some());
  body.replace(body.find("\"lead\""), 6, "\"boss\"");
  EXPECT_TRUE(absl::IsDataLoss(ReadPassedCall(body).status()));
}

TEST(LeaderCalls, TheLeaderAnswersAndNothingStaysInTheStore) {
  RunOnLoop([](TestLoop& loop) -> net::Task<void> {
    MemoryStore& store = loop.Keep(std::make_unique<MemoryStore>());
    int served = 0;
    LeaderCalls& leader = loop.Keep(std::make_unique<LeaderCalls>(
        loop, store,
        LeaderCalls::Options{.name = "a",
                             .leads = [] { return true; },
                             .serve = [&](PassedCall call) -> net::Task<Answer> {
                               ++served;
                               co_return Answer{.status = 201, .body = call.caller.actor + "\"\n"};
                             }}));
    LeaderCalls& follower = loop.Keep(std::make_unique<LeaderCalls>(
        loop, store, LeaderCalls::Options{.name = "b", .leads = [] { return false; }, .serve = nullptr}));
    EXPECT_TRUE((co_await leader.Start()).ok());
    EXPECT_TRUE((co_await follower.Start()).ok());
    const Answer answer = co_await follower.Pass(Some());
    EXPECT_EQ(answer.status, 201);
    EXPECT_EQ(answer.body, "person:1\"\n");
    EXPECT_EQ(served, 1);
    EXPECT_TRUE(co_await Eventually(loop, [&] { return store.Count(store::kLeaderCall) == 0; }));
    leader.Stop();
    follower.Stop();
  });
}

// A handler that asks Operations for planner(), jobs(), cordons(), scaling() or scaling_history() belongs here:
// where another gateway leads, these are empty.
TEST(LeaderCalls, WhatNeedsThePlannerJobsOrScalingIsAnsweredByTheLeader) {
  const std::set<std::string_view> at_leader = {
      "abortRollout",       "approveRequest", "askForGrant",     "cancelJob",     "cancelSimulation",
      "changeGrant",        "compareJobs",    "cordonNode",      "drainNode",     "explainJob",
      "giveGrant",          "holdModel",      "listAdapters",    "listJobQueues", "listJobs",
      "listNodes",          "listReplicas",   "listResources",   "listRollouts",  "listScaling",
      "listSimulations",    "loadAdapter",    "promoteRollout",  "readJobLog",    "removeTenant",
      "rerunJob",           "restartRollout", "resumeJob",       "showJob",       "showOverview",
      "showScalingHistory", "showSimulation", "startSimulation", "submitJob",     "suspendJob",
      "uncordonNode",       "undrainNode",    "unloadAdapter"};
  std::set<std::string_view> found;
  for (const Route& route : Routes()) {
    if (IsAnsweredByLeader(route)) found.insert(route.name);
  }
  EXPECT_EQ(found, at_leader);
}

TEST(LeaderCalls, OneThatHasStoppedLeavesTheCallsToTheNextLeader) {
  RunOnLoop([](TestLoop& loop) -> net::Task<void> {
    MemoryStore& store = loop.Keep(std::make_unique<MemoryStore>());
    std::string served;
    const auto make = [&](const std::string& name, bool leads) -> LeaderCalls& {
      return loop.Keep(std::make_unique<LeaderCalls>(
          loop, store,
          LeaderCalls::Options{.name = name,
                               .leads = [leads] { return leads; },
                               .serve = [&served, name](PassedCall) -> net::Task<Answer> {
                                 served += name;
                                 co_return Answer{.status = 200, .body = "{}"};
                               }}));
    };
    LeaderCalls& ending = make("a", true);
    LeaderCalls& next = make("b", true);
    LeaderCalls& follower = make("c", false);
    EXPECT_TRUE((co_await ending.Start()).ok());
    EXPECT_TRUE((co_await next.Start()).ok());
    EXPECT_TRUE((co_await follower.Start()).ok());
    ending.Stop();
    EXPECT_EQ((co_await follower.Pass(Some())).status, 200);
    EXPECT_EQ(served, "b");
    next.Stop();
    follower.Stop();
  });
}

net::Task<void> PassSome(LeaderCalls& calls, int& refused) {
  if ((co_await calls.Pass(Some())).status == 503) ++refused;
}

TEST(LeaderCalls, AllThatWaitAreRefusedWhenTheGatewayEnds) {
  RunOnLoop([](TestLoop& loop) -> net::Task<void> {
    MemoryStore& store = loop.Keep(std::make_unique<MemoryStore>());
    LeaderCalls& follower = loop.Keep(std::make_unique<LeaderCalls>(
        loop, store, LeaderCalls::Options{.name = "b", .leads = [] { return false; }, .serve = nullptr}));
    EXPECT_TRUE((co_await follower.Start()).ok());
    int refused = 0;
    for (int i = 0; i < 5; ++i) loop.tasks.Spawn(PassSome(follower, refused));
    EXPECT_EQ(store.Count(store::kLeaderCall), 5u);
    follower.Stop();
    EXPECT_TRUE(co_await Eventually(loop, [&] { return refused == 5; }));
    EXPECT_EQ(store.Count(store::kLeaderCall), 0u);
  });
}

TEST(LeaderCalls, AStoreThatRefusesIsToldToTheCaller) {
  RunOnLoop([](TestLoop& loop) -> net::Task<void> {
    MemoryStore& store = loop.Keep(std::make_unique<MemoryStore>());
    LeaderCalls& follower = loop.Keep(std::make_unique<LeaderCalls>(
        loop, store, LeaderCalls::Options{.name = "b", .leads = [] { return false; }, .serve = nullptr}));
    EXPECT_TRUE((co_await follower.Start()).ok());
    store.refuses = absl::UnavailableError("gone");
    const Answer answer = co_await follower.Pass(Some());
    EXPECT_EQ(answer.status, 503);
    follower.Stop();
  });
}

}  // namespace
}  // namespace gateway::admin
