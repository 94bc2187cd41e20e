#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/gateway/admin/world.h"

namespace {

using gateway::Person;
using gateway::ledger::Kind;
using gateway::net::Task;
using plugins::auth::Role;
using testing::HasSubstr;
using testing::Not;
using tests::AdminClient;
using tests::Reply;
using tests::SignedIn;
using tests::WithAdmin;
using tests::World;

const Person kDemoLead{.id = "person:lead", .roles = {{Role::kLead, "demo"}}};
const Person kSearchLead{.id = "person:search", .roles = {{Role::kLead, "demo/search"}}};
const Person kMember{.id = "person:ada", .roles = {{Role::kMember, "demo/search"}}};
const Person kStranger{.id = "person:eve", .roles = {{Role::kLead, "elsewhere"}}};

TEST(Tenants, ALeadMakesOneWithinTheLimitsOfItsParent) {
  World world;
  WithAdmin(world, [&](AdminClient& client) -> Task<void> {
    const SignedIn lead = co_await client.SignIn(kDemoLead);
    const auto make = [&](std::string body) {
      return client.CallAs(lead, "POST", "/admin/v1/tenants", body);
    };
    const Reply above =
        co_await make(R"({"parent":"demo","name":"one","limits":{"requests_per_minute":601}})");
    EXPECT_EQ(above.code(), "invalid_value");
    EXPECT_THAT(above.message(), HasSubstr("at most 600"));
    EXPECT_EQ((co_await make(R"({"parent":"search","name":"one","models":["chat-large"]})")).status, 400);
    EXPECT_EQ((co_await make(R"({"parent":"demo","name":"one","weight":2})")).status, 400);
    const Reply made = co_await make(R"({"parent":"demo","name":"one","limits":{"requests_per_minute":60}})");
    EXPECT_EQ(made.status, 201) << made.text;
    EXPECT_EQ(made.body["path"], "demo/one");
    EXPECT_EQ(made.body["state"], "in_force");
    EXPECT_EQ((co_await make(R"({"parent":"demo","name":"one"})")).code(), "conflict");
    EXPECT_NE(world.runtime->FindTenant("demo/one"), nullptr) << "without a reload";
    EXPECT_EQ(world.runtime->FindTenant("one"), nullptr) << "only its path names it";
    const Reply key = co_await client.CallAs(lead, "POST", "/admin/v1/keys", R"({"tenant":"demo/one"})");
    EXPECT_EQ(key.status, 201) << key.text;
    const Reply used = co_await client.CallAs(lead, "POST", "/admin/v1/tenants/demo%2Fone:remove", "{}");
    EXPECT_EQ(used.code(), "conflict") << used.text;
    const Reply removed =
        co_await client.CallAs(lead, "POST", "/admin/v1/tenants/demo%2Fone:remove", R"({"keys":"revoke"})");
    EXPECT_EQ(removed.status, 200) << removed.text;
    EXPECT_EQ(removed.body["revoked_keys"], 1);
    EXPECT_EQ(world.runtime->FindTenant("demo/one"), nullptr);
  });
}

TEST(Tenants, WhatTheFileHasIsChangedThere) {
  World world;
  WithAdmin(world, [&](AdminClient& client) -> Task<void> {
    const SignedIn lead = co_await client.SignIn(kDemoLead);
    for (const char* action : {"change", "disable", "remove"}) {
      const Reply reply = co_await client.CallAs(
          lead, "POST", std::string("/admin/v1/tenants/demo%2Fsearch:") + action, "{}");
      EXPECT_EQ(reply.code(), "configured_in_file") << action;
    }
    const SignedIn stranger = co_await client.SignIn(kStranger);
    const Reply hidden = co_await client.CallAs(stranger, "POST", "/admin/v1/tenants/demo:remove", "{}");
    EXPECT_EQ(hidden.code(), "not_found") << "nothing is told of others";
  });
}

TEST(Tenants, TheirOwnLeadDoesNotRaiseTheirLimits) {
  World world;
  WithAdmin(world, [&](AdminClient& client) -> Task<void> {
    const SignedIn lead = co_await client.SignIn(kDemoLead);
    EXPECT_EQ((co_await client.CallAs(lead, "POST", "/admin/v1/tenants",
                                      R"({"parent":"demo","name":"one","limits":{"concurrency":1}})"))
                  .status,
              201);
    const SignedIn own = co_await client.SignIn({.id = "person:o", .roles = {{Role::kLead, "demo/one"}}});
    const Reply reply = co_await client.CallAs(own, "POST", "/admin/v1/tenants/demo%2Fone:change",
                                               R"({"limits":{"concurrency":9}})");
    EXPECT_EQ(reply.code(), "permission_denied") << reply.text;
  });
}

TEST(Tenants, TheListSaysWhatTheCallerMayChange) {
  World world;
  WithAdmin(world, [&](AdminClient& client) -> Task<void> {
    const SignedIn lead = co_await client.SignIn(kDemoLead);
    (void)co_await client.CallAs(lead, "POST", "/admin/v1/tenants", R"({"parent":"demo","name":"one"})");
    (void)co_await client.CallAs(lead, "POST", "/admin/v1/tenants", R"({"parent":"demo/one","name":"two"})");
    const SignedIn own = co_await client.SignIn({.id = "person:o", .roles = {{Role::kLead, "demo/one"}}});
    const SignedIn member = co_await client.SignIn({.id = "person:m", .roles = {{Role::kMember, "demo"}}});
    struct Case {
      const SignedIn& who;
      const char* path;
      bool may_change;
      bool may_add;
    };
    for (const Case& c : {Case{lead, "demo", false, true}, Case{lead, "demo/one", true, true},
                          Case{own, "demo/one", false, true}, Case{own, "demo/one/two", true, true},
                          Case{member, "demo/one", false, false}}) {
      const Reply list = co_await client.CallAs(c.who, "GET", "/admin/v1/tenants");
      const auto at =
          std::ranges::find(list.body["data"], c.path, [](const auto& row) { return row["path"]; });
      EXPECT_NE(at, list.body["data"].end()) << list.text;
      if (at == list.body["data"].end()) continue;
      EXPECT_EQ((*at)["may_change"], c.may_change) << *at;
      EXPECT_EQ((*at)["may_add"], c.may_add) << *at;
      if (c.path == std::string_view("demo/one/two"))
        EXPECT_EQ((*at)["parent"], "demo/one") << "a name that other calls take";
    }
  });
}

TEST(Tenants, ADisabledOneIsRefusedAndComesBack) {
  World world;
  WithAdmin(world, [&](AdminClient& client) -> Task<void> {
    const SignedIn lead = co_await client.SignIn(kDemoLead);
    (void)co_await client.CallAs(lead, "POST", "/admin/v1/tenants", R"({"parent":"demo","name":"one"})");
    (void)co_await client.CallAs(lead, "POST", "/admin/v1/tenants/demo%2Fone:disable", "{}");
    EXPECT_TRUE(world.runtime->FindTenant("demo/one")->disabled);
    (void)co_await client.CallAs(lead, "POST", "/admin/v1/tenants/demo%2Fone:enable", "{}");
    EXPECT_FALSE(world.runtime->FindTenant("demo/one")->disabled);
  });
}

TEST(Tenants, ConfiguredOnesShowTheLimitsOfTheFile) {
  World world;
  WithAdmin(world, [&](AdminClient& client) -> Task<void> {
    const Reply tenants = co_await client.Call("GET", "/admin/v1/tenants", std::string(tests::kBootstrapKey));
    for (const tests::json& tenant : tenants.body["data"]) {
      if (tenant["path"] == "demo") {
        EXPECT_EQ(tenant["limits"]["requests_per_minute"], 600) << tenant;
        EXPECT_EQ(tenant["limits"]["budget"]["usd"], 20) << tenant;
        EXPECT_EQ(tenant["limits"]["budget"]["period"], "day") << tenant;
      } else {
        EXPECT_FALSE(tenant.contains("limits")) << tenant;
      }
    }
  });
}

TEST(Tenants, AMembersRoleCountsFromTheNextCallAndEndsWithIt) {
  World world;
  WithAdmin(world, [&](AdminClient& client) -> Task<void> {
    const SignedIn lead = co_await client.SignIn(kDemoLead);
    const SignedIn bob = co_await client.SignIn({.id = "person:corp:bob"});
    EXPECT_EQ((co_await client.CallAs(bob, "GET", "/admin/v1/limits")).status, 403);
    const std::string who = R"({"tenant":"search","who":"person:corp:bob","role":"member"})";
    EXPECT_EQ((co_await client.CallAs(lead, "POST", "/admin/v1/members", who)).status, 201);
    EXPECT_EQ((co_await client.CallAs(bob, "GET", "/admin/v1/limits")).status, 200);
    EXPECT_EQ((co_await client.CallAs(bob, "POST", "/admin/v1/members", who)).status, 403);
    EXPECT_EQ((co_await client.CallAs(lead, "POST", "/admin/v1/members:remove",
                                      R"({"tenant":"search","who":"person:corp:bob"})"))
                  .status,
              200);
    EXPECT_EQ((co_await client.CallAs(bob, "GET", "/admin/v1/limits")).status, 403);
  });
}

TEST(Requests, AreDecidedByRolesAboveTheTenantAndNeverByTheRequester) {
  World world;
  WithAdmin(world, [&](AdminClient& client) -> Task<void> {
    const SignedIn ada = co_await client.SignIn(kMember);
    const SignedIn search = co_await client.SignIn(kSearchLead);
    const SignedIn lead = co_await client.SignIn(kDemoLead);
    const SignedIn eve = co_await client.SignIn(kStranger);
    const std::string wanted =
        R"({"tenant":"demo/search","models":["chat-large"],"until":"2h","reason":"a demo"})";
    const Reply asked = co_await client.CallAs(ada, "POST", "/admin/v1/requests", wanted);
    EXPECT_EQ(asked.status, 201) << asked.text;
    EXPECT_EQ(asked.body["state"], "pending");
    const std::string approve = "/admin/v1/requests/" + asked.body["id"].get<std::string>() + ":approve";
    EXPECT_EQ((co_await client.CallAs(search, "POST", approve, "{}")).status, 403) << "not above";
    EXPECT_EQ((co_await client.CallAs(eve, "POST", approve, "{}")).status, 404);
    EXPECT_THAT((co_await client.CallAs(eve, "GET", "/admin/v1/requests")).text, Not(HasSubstr("demo")));
    const Reply longer = co_await client.CallAs(lead, "POST", approve, R"({"until":"3h"})");
    EXPECT_EQ(longer.status, 400) << longer.text;
    const Reply approved = co_await client.CallAs(lead, "POST", approve, R"({"until":"1h","answer":"ok"})");
    EXPECT_EQ(approved.status, 200) << approved.text;
    EXPECT_TRUE(world.runtime->FindTenant("search")->models[1]) << "in force without a reload";
    const Reply own = co_await client.CallAs(
        lead, "POST", "/admin/v1/requests",
        R"({"tenant":"demo","limits":{"requests_per_minute":700},"until":"2h","reason":"x"})");
    EXPECT_EQ(own.status, 201) << own.text;
    const Reply self = co_await client.CallAs(
        lead, "POST", "/admin/v1/requests/" + own.body["id"].get<std::string>() + ":approve", "{}");
    EXPECT_EQ(self.status, 403) << self.text;
    const Reply grants = co_await client.CallAs(ada, "GET", "/admin/v1/grants");
    EXPECT_EQ(grants.body["data"].size(), 1u) << grants.text;
    EXPECT_EQ(grants.body["data"][0]["asked_by"], "person:ada");
    EXPECT_EQ(grants.body["data"][0]["approved_by"], "person:lead");
    const std::string end = "/admin/v1/grants/" + grants.body["data"][0]["id"].get<std::string>() + ":end";
    EXPECT_EQ((co_await client.CallAs(ada, "POST", end, "{}")).status, 403);
    EXPECT_EQ((co_await client.CallAs(lead, "POST", end, "{}")).status, 200);
    EXPECT_FALSE(world.runtime->FindTenant("search")->models[1]);
  });
}

TEST(Requests, AreDiscussedByTheRequesterAndThoseWhoDecide) {
  World world;
  WithAdmin(world, [&](AdminClient& client) -> Task<void> {
    const SignedIn ada = co_await client.SignIn(kMember);
    const SignedIn lead = co_await client.SignIn(kDemoLead);
    const SignedIn eve = co_await client.SignIn(kStranger);
    const SignedIn viewer = co_await client.SignIn({.id = "person:vera", .roles = {{Role::kViewer, {}}}});
    const Reply asked = co_await client.CallAs(
        ada, "POST", "/admin/v1/requests",
        R"({"tenant":"search","models":["chat-large"],"until":"2h","reason":"a demo"})");
    const std::string comments = "/admin/v1/requests/" + asked.body["id"].get<std::string>() + "/comments";
    EXPECT_EQ((co_await client.CallAs(lead, "POST", comments, R"({"text":"how long?"})")).status, 201);
    const Reply said = co_await client.CallAs(ada, "POST", comments, R"({"text":"<b>two hours</b>"})");
    EXPECT_EQ(said.status, 201) << said.text;
    EXPECT_EQ(said.body["comments"].size(), 2u) << said.text;
    EXPECT_EQ(said.body["comments"][1]["by"], "person:ada");
    EXPECT_EQ((co_await client.CallAs(eve, "POST", comments, R"({"text":"x"})")).status, 404);
    EXPECT_EQ((co_await client.CallAs(viewer, "POST", comments, R"({"text":"x"})")).status, 403);
    EXPECT_EQ((co_await client.CallAs(ada, "POST", comments, R"({"text":""})")).status, 400);
  });
}

TEST(Requests, ARenewalAsksForTheSameForLonger) {
  World world;
  WithAdmin(world, [&](AdminClient& client) -> Task<void> {
    const SignedIn ada = co_await client.SignIn(kMember);
    const SignedIn lead = co_await client.SignIn(kDemoLead);
    const Reply given = co_await client.CallAs(lead, "POST", "/admin/v1/grants",
                                               R"({"tenant":"search","models":["chat-large"],"until":"2h"})");
    EXPECT_EQ(given.status, 201) << given.text;
    const std::string id = given.body["id"];
    const auto ask = [&](const std::string& until, const std::string& more = "") {
      return client.CallAs(ada, "POST", "/admin/v1/requests",
                           R"({"tenant":"search","reason":"x","renews":")" + id + R"(","until":")" + until +
                               "\"" + more + "}");
    };
    EXPECT_EQ((co_await ask("1h")).status, 400) << "not longer";
    EXPECT_EQ((co_await ask("4h", R"(,"weight":9)")).status, 400) << "more";
    const Reply asked = co_await ask("4h");
    EXPECT_EQ(asked.status, 201) << asked.text;
    EXPECT_EQ(asked.body["renews"], id);
    EXPECT_EQ(asked.body["models"][0], "chat-large");
    const Reply approved = co_await client.CallAs(
        lead, "POST", "/admin/v1/requests/" + asked.body["id"].get<std::string>() + ":approve",
        R"({"until":"3h"})");
    EXPECT_EQ(approved.status, 200) << approved.text;
    EXPECT_EQ(approved.body["grant"], id);
    const Reply grants = co_await client.CallAs(ada, "GET", "/admin/v1/grants");
    EXPECT_EQ(grants.body["data"].size(), 1u);
    EXPECT_GT(grants.body["data"][0]["until"], given.body["until"]);
  });
}

TEST(Grants, AreChangedByThoseAboveAndNotByTheOneWhoAsked) {
  World world;
  WithAdmin(world, [&](AdminClient& client) -> Task<void> {
    const SignedIn ada = co_await client.SignIn(kMember);
    const SignedIn search = co_await client.SignIn(kSearchLead);
    const SignedIn lead = co_await client.SignIn(kDemoLead);
    const Reply given = co_await client.CallAs(lead, "POST", "/admin/v1/grants",
                                               R"({"tenant":"search","models":["chat-large"],"until":"2h"})");
    const std::string change = "/admin/v1/grants/" + given.body["id"].get<std::string>() + ":change";
    for (const SignedIn& who : {ada, search})
      EXPECT_EQ((co_await client.CallAs(who, "POST", change, R"({"until":"9h"})")).status, 403);
    EXPECT_EQ((co_await client.CallAs(lead, "POST", change, "{}")).status, 400);
    const Reply changed = co_await client.CallAs(lead, "POST", change, R"({"until":"9h","weight":5})");
    EXPECT_EQ(changed.status, 200) << changed.text;
    EXPECT_EQ(changed.body["weight"], 5);
    EXPECT_EQ(changed.body["models"][0], "chat-large");
    EXPECT_EQ(world.runtime->FindTenant("search")->config->weight, 5u);
  });
}

TEST(Grants, OfDevicesNeedAPlanner) {
  World world;
  WithAdmin(world, [&](AdminClient& client) -> Task<void> {
    const Reply given =
        co_await client.Call("POST", "/admin/v1/grants", std::string(tests::kBootstrapKey),
                             R"({"tenant":"search","devices":{"kind":"h100","count":1},"until":"2h"})");
    EXPECT_EQ(given.status, 400) << given.text;
    EXPECT_THAT(given.text, HasSubstr("plans no devices"));
  });
}

TEST(Requests, ARuleOfTheConfigurationApproves) {
  World world(R"(people:
  requests:
    approve: [{name: small, tenant: demo, models: ['chat-*'], longest: 24h}]
)");
  WithAdmin(world, [&](AdminClient& client) -> Task<void> {
    const SignedIn ada = co_await client.SignIn(kMember);
    const Reply asked =
        co_await client.CallAs(ada, "POST", "/admin/v1/requests",
                               R"({"tenant":"search","models":["chat-large"],"until":"2h","reason":"x"})");
    EXPECT_EQ(asked.body["state"], "approved") << asked.text;
    EXPECT_EQ(asked.body["decided_by"], "rule:small");
    EXPECT_TRUE(world.runtime->FindTenant("search")->models[1]);
  });
}

TEST(Requests, EveryProblemIsReportedAtOnce) {
  World world;
  WithAdmin(world, [&](AdminClient& client) -> Task<void> {
    const SignedIn ada = co_await client.SignIn(kMember);
    const Reply reply = co_await client.CallAs(
        ada, "POST", "/admin/v1/requests",
        R"({"tenant":"search","models":["chat-small","none"],"limits":{"concurrency":5},"until":"1w2"})");
    EXPECT_EQ(reply.status, 400);
    for (const char* part : {"may use \"chat-small\" already", "\"none\" is not a model",
                             "has no concurrency", "must be a moment after", "needs to know what for"})
      EXPECT_THAT(reply.message(), HasSubstr(part));
  });
}

}  // namespace
