#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "gateway/admin/handlers.h"
#include "tests/unit/gateway/admin/world.h"
#include "tests/unit/gateway/control/jobs/world.h"

namespace {

using gateway::Authority;
using gateway::Permission;
using gateway::Person;
using gateway::admin::Route;
using gateway::admin::Routes;
using gateway::ledger::Kind;
using gateway::net::Task;
using gateway::net::http::Verb;
using plugins::auth::Role;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using tests::AdminClient;
using tests::json;
using tests::Reply;
using tests::WithAdmin;
using tests::World;

std::string PathOf(const Route& route) {
  std::string path(route.path);
  for (size_t open = path.find('{'); open != std::string::npos; open = path.find('{'))
    path.replace(open, path.find('}') - open + 1, "x");
  return path;
}

std::string MethodOf(const Route& route) {
  return std::string(boost::beast::http::to_string(route.method));
}

// Invariant 15: one table says who may do what, and every route asks it.
TEST(Invariant15, EveryRouteAsksTheTableForEveryRoleAndScope) {
  World world;
  struct Who {
    const char* name;
    Person person;
  };
  const std::vector<Who> people = {
      {"member", {.id = "person:m", .roles = {{Role::kMember, "demo/search"}}}},
      {"lead", {.id = "person:l", .roles = {{Role::kLead, "demo/search"}}}},
      {"lead of another", {.id = "person:o", .roles = {{Role::kLead, "elsewhere"}}}},
      {"viewer", {.id = "person:v", .roles = {{Role::kViewer, {}}}}},
      {"operator", {.id = "person:op", .roles = {{Role::kOperator, {}}}}},
      {"admin", {.id = "person:a", .roles = {{Role::kAdmin, {}}}}},
      {"nobody", {.id = "person:n"}},
  };
  world.operations.events = nullptr;  // an answer of the feed has no end
  std::set<std::string_view> open;
  WithAdmin(world, [&](AdminClient& client) -> Task<void> {
    for (const Who& who : people) {
      const Authority authority(who.person.roles);
      for (const Route& route : Routes()) {
        if (!route.permission) {
          open.insert(route.name);
          continue;
        }
        if (route.name == "endOwnSession") continue;
        const tests::SignedIn session = co_await client.SignIn(who.person);
        const Reply reply = co_await client.CallAs(session, MethodOf(route), PathOf(route), "{}");
        const bool refused = reply.status == 403 && reply.message().starts_with("this call needs ");
        EXPECT_EQ(refused, !authority.May(*route.permission))
            << who.name << ' ' << route.name << ": " << reply.text;
        EXPECT_EQ(co_await client.StatusWithoutCredential(MethodOf(route), PathOf(route)), 401) << route.name;
      }
    }
  });
  EXPECT_THAT(open, testing::UnorderedElementsAre("livez", "readyz", "metrics", "openapi", "listSignInWays",
                                                  "redeemSignInLink", "beginSignIn", "finishSignIn",
                                                  "redeemLinkForTerminal", "beginTerminalSignIn",
                                                  "redeemTerminalSignIn"));
}

TEST(People, ALinkSignsInOnceAndTheSessionEndsAtOnce) {
  World world;
  WithAdmin(world, [&](AdminClient& client) -> Task<void> {
    const std::string boot(tests::kBootstrapKey);
    const Reply link = co_await client.Call("POST", "/admin/v1/sign-in:link", boot, "{}");
    EXPECT_EQ(link.status, 201) << link.text;
    const std::string url = link.body["url"];
    const std::string target = url.substr(url.find("/sign-in/"));
    const Reply in = co_await client.Call("GET", target);
    EXPECT_EQ(in.status, 303);
    EXPECT_EQ(in.headers.at("location"), "/");
    EXPECT_THAT(in.headers.at("set-cookie"), HasSubstr("; HttpOnly; SameSite=Lax"));
    const Reply again = co_await client.Call("GET", target);
    EXPECT_EQ(again.headers.at("location"), "/sign-in?problem=link_used");
    EXPECT_THAT(again.headers.at("set-cookie"), Not(HasSubstr("tidegate=")));
    const tests::SignedIn session = client.SessionOf(in);
    Reply me = co_await client.CallAs(session, "GET", "/admin/v1/me");
    EXPECT_EQ(me.status, 200) << me.text;
    EXPECT_EQ(me.body["kind"], "person");
    EXPECT_EQ(me.body["csrf"], session.csrf);
    EXPECT_THAT(me.text, Not(HasSubstr(session.secret)));
    const Reply out = co_await client.CallAs(session, "POST", "/admin/v1/session:end", "{}");
    EXPECT_EQ(out.status, 200) << out.text;
    EXPECT_THAT(out.headers.at("set-cookie"), HasSubstr("Max-Age=0"));
    EXPECT_EQ((co_await client.CallAs(session, "GET", "/admin/v1/me")).status, 401);
  });
  std::vector<std::string> actions;
  for (const json& record : world.Records(Kind::kAdmin)) actions.push_back(record["action"]);
  EXPECT_THAT(actions, testing::IsSupersetOf({"session.begin", "session.end"}));
}

// The address of a link, as a browser calls it.
std::string TargetOf(const Reply& link) {
  const std::string url = link.body["url"];
  return url.substr(url.find("/sign-in/"));
}

TEST(People, TheBootstrapKeyStaysOverWhenTheFirstAdminIsGone) {
  World world;
  const std::string boot(tests::kBootstrapKey);
  WithAdmin(world, [&](AdminClient& client) -> Task<void> {
    EXPECT_EQ((co_await client.Call("GET", "/admin/v1/tenants", boot)).status, 200);
    const tests::SignedIn admin = co_await client.SignIn({.id = "person:a", .roles = {{Role::kAdmin, {}}}});
    EXPECT_EQ((co_await client.Call("GET", "/admin/v1/tenants", boot)).code(), "key_revoked");
    EXPECT_EQ((co_await client.CallAs(admin, "POST", "/admin/v1/session:end", "{}")).status, 200);
    EXPECT_EQ((co_await client.Call("GET", "/admin/v1/tenants", boot)).code(), "key_revoked");
  });
}

TEST(People, TheBootstrapKeyStaysOverWhenTheOnlyAdminKeyIsRevoked) {
  World world;
  const std::string admin = world.AdminKey(Role::kAdmin);
  EXPECT_TRUE(
      world.Await(world.shared.keys->Revoke(admin.substr(3, 10), {"cli:root"}, "", gateway::net::Now()))
          .ok());
  WithAdmin(world, [&](AdminClient& client) -> Task<void> {
    const Reply reply = co_await client.Call("GET", "/admin/v1/tenants", std::string(tests::kBootstrapKey));
    EXPECT_EQ(reply.code(), "key_revoked") << reply.text;
  });
}

TEST(People, ASessionByTheLinkOfAKeyEndsWithTheKey) {
  World world;
  const std::string key = world.AdminKey(Role::kAdmin);
  WithAdmin(world, [&](AdminClient& client) -> Task<void> {
    const Reply link = co_await client.Call("POST", "/admin/v1/sign-in:link", key, "{}");
    const tests::SignedIn session = client.SessionOf(co_await client.Call("GET", TargetOf(link)));
    EXPECT_EQ((co_await client.CallAs(session, "GET", "/admin/v1/tenants")).status, 200);
    const std::string revoke = "/admin/v1/keys/" + key.substr(3, 10) + ":revoke";
    EXPECT_EQ((co_await client.CallAs(session, "POST", revoke, "{}")).status, 200);
    EXPECT_EQ((co_await client.CallAs(session, "GET", "/admin/v1/tenants")).status, 401);
  });
}

TEST(People, ALinkDoesNotProlongTheSessionOfTheOneWhoMadeIt) {
  World world;
  WithAdmin(world, [&](AdminClient& client) -> Task<void> {
    const tests::SignedIn admin = co_await client.SignIn({.id = "person:a", .roles = {{Role::kAdmin, {}}}});
    const Reply link = co_await client.CallAs(admin, "POST", "/admin/v1/sign-in:link", "{}");
    EXPECT_EQ(link.status, 201) << link.text;
    const tests::SignedIn later = client.SessionOf(co_await client.Call("GET", TargetOf(link)));
    const gateway::Session* const first = world.sessions->Check(admin.secret, gateway::net::Now());
    const gateway::Session* const second = world.sessions->Check(later.secret, gateway::net::Now());
    EXPECT_TRUE(first != nullptr && second != nullptr);
    if (first != nullptr && second != nullptr) EXPECT_EQ(second->ends, first->ends);
  });
}

TEST(People, ACallerLearnsWhetherTheGatewayScales) {
  for (const bool scales : {false, true}) {
    World world(scales ? "admin: {bootstrap_key: env:BOOT}\nscaling: {cluster: [{kind: h100, count: 2}]}\n"
                       : "");
    WithAdmin(world, [&](AdminClient& client) -> Task<void> {
      const Reply me = co_await client.Call("GET", "/admin/v1/me", std::string(tests::kBootstrapKey));
      EXPECT_EQ(me.body["scaling"], scales) << me.text;
    });
  }
}

TEST(People, ACommandLineSignsInWithACodeThatAPersonConfirms) {
  World world;
  WithAdmin(world, [&](AdminClient& client) -> Task<void> {
    const Reply begun = co_await client.Call("POST", "/admin/v1/terminal-sign-ins", "", "{}");
    EXPECT_EQ(begun.status, 201) << begun.text;
    const std::string code = begun.body["code"];
    const std::string path = "/admin/v1/terminal-sign-ins/" + code;
    const std::string secret = json{{"secret", begun.body["secret"]}}.dump();
    EXPECT_THAT(begun.body["url"].get<std::string>(), testing::EndsWith("/terminal?code=" + code));
    EXPECT_EQ((co_await client.Call("POST", path + ":redeem", "", secret)).body["state"], "waiting");
    // A key is nobody who could be asked.
    EXPECT_EQ((co_await client.Call("POST", path + ":confirm", std::string(tests::kBootstrapKey))).status,
              409);
    const tests::SignedIn ada =
        co_await client.SignIn({.id = "person:ada", .name = "Ada", .roles = {{Role::kOperator, {}}}});
    const Reply shown = co_await client.CallAs(ada, "GET", path);
    EXPECT_EQ(shown.status, 200) << shown.text;
    EXPECT_EQ(shown.body["code"], code);
    EXPECT_EQ((co_await client.CallAs(ada, "POST", path + ":confirm", "{}")).status, 200);
    const Reply session = co_await client.Call("POST", path + ":redeem", "", secret);
    EXPECT_EQ(session.body["state"], "confirmed") << session.text;
    EXPECT_EQ((co_await client.Call("POST", path + ":redeem", "", secret)).status, 404);
    const std::string token = session.body["token"];
    const Reply me = co_await client.Call("GET", "/admin/v1/me", token);
    EXPECT_EQ(me.body["actor"], "person:ada") << me.text;
    EXPECT_TRUE(me.body["csrf"].is_null());
    // It changes things without a page of ours, and is no cookie.
    EXPECT_EQ((co_await client.Call("POST", "/admin/v1/keys", token, R"({"tenant":"search"})")).status, 201);
    tests::SignedIn as_cookie{token.substr(gateway::kSessionPrefix.size()), ""};
    EXPECT_EQ((co_await client.CallAs(as_cookie, "GET", "/admin/v1/me")).status, 401);
    EXPECT_EQ((co_await client.Call("GET", "/admin/v1/me", "tgs_" + ada.secret)).status, 401);
    // It cannot make another.
    const Reply next = co_await client.Call("POST", "/admin/v1/terminal-sign-ins", "", "{}");
    const std::string other = "/admin/v1/terminal-sign-ins/" + next.body["code"].get<std::string>();
    EXPECT_EQ((co_await client.Call("POST", other + ":confirm", token)).status, 409);
    const Reply sessions = co_await client.CallAs(ada, "GET", "/admin/v1/sessions");
    int of_command_lines = 0;
    for (const json& each : sessions.body["data"]) of_command_lines += each["command_line"] == true ? 1 : 0;
    EXPECT_EQ(of_command_lines, 1);
    EXPECT_EQ((co_await client.Call("POST", "/admin/v1/session:end", token, "{}")).status, 200);
    EXPECT_EQ((co_await client.Call("GET", "/admin/v1/me", token)).status, 401);
  });
  std::vector<std::string> actions;
  for (const json& record : world.Records(Kind::kAdmin)) actions.push_back(record["action"]);
  EXPECT_THAT(actions, testing::IsSupersetOf({"command_line.confirm", "session.begin", "session.end"}));
}

TEST(People, ALinkSignsACommandLineInOnce) {
  World world;
  WithAdmin(world, [&](AdminClient& client) -> Task<void> {
    const Reply link =
        co_await client.Call("POST", "/admin/v1/sign-in:link", std::string(tests::kBootstrapKey), "{}");
    const std::string url = link.body["url"];
    const std::string body = json{{"code", url.substr(url.find("code=") + 5)}}.dump();
    const Reply session = co_await client.Call("POST", "/admin/v1/sign-in:redeem", "", body);
    EXPECT_EQ(session.status, 200) << session.text;
    EXPECT_EQ((co_await client.Call("GET", "/admin/v1/me", session.body["token"])).status, 200);
    EXPECT_EQ((co_await client.Call("POST", "/admin/v1/sign-in:redeem", "", body)).status, 404);
  });
}

TEST(People, ACallThatChangesSomethingMustComeFromOurOwnPages) {
  World world;
  WithAdmin(world, [&](AdminClient& client) -> Task<void> {
    const tests::SignedIn admin = co_await client.SignIn({.id = "person:a", .roles = {{Role::kAdmin, {}}}});
    const std::string body = R"({"tenant":"search"})";
    tests::SignedIn other = admin;
    other.csrf = "";
    EXPECT_EQ((co_await client.CallAs(other, "POST", "/admin/v1/keys", body)).status, 403);
    other.csrf = std::string(64, '0');
    EXPECT_EQ((co_await client.CallAs(other, "POST", "/admin/v1/keys", body)).status, 403);
    other = admin;
    other.origin = "https://evil.example.com";
    EXPECT_EQ((co_await client.CallAs(other, "POST", "/admin/v1/keys", body)).status, 403);
    EXPECT_EQ((co_await client.CallAs(admin, "POST", "/admin/v1/keys", body)).status, 201);
  });
}

// DNS rebinding: a stranger's name that leads here must not carry a session.
TEST(People, SessionsWorkAtNamesThatNoStrangerCanPointHere) {
  const World world("people: {url: 'https://tidegate.example.com:9090'}\n");
  const gateway::Config& config = world.runtime->config();
  for (const char* host :
       {"127.0.0.1:9090", "10.0.0.7", "[::1]:9090", "localhost:9090", "TIDEGATE.example.com:9090"})
    EXPECT_TRUE(gateway::admin::IsKnownHost(host, config)) << host;
  for (const char* host :
       {"rebound.example.com", "tidegate.example.com.evil.org", "localhost.evil.org", "", "1.2.3.4.evil.org"})
    EXPECT_FALSE(gateway::admin::IsKnownHost(host, config)) << host;
}

TEST(People, LeadsAndMembersSeeTheirTenantsAndNothingOfOthers) {
  World world;
  world.Serve("demo", "chat-large", 100, 100);
  world.Serve("demo/search", "chat-small", 3, 4);
  const std::string others = world.AppKey("demo").substr(3, 10);
  const std::string theirs = world.AppKey("demo/search").substr(3, 10);
  WithAdmin(world, [&](AdminClient& client) -> Task<void> {
    const tests::SignedIn lead =
        co_await client.SignIn({.id = "person:l", .roles = {{Role::kLead, "demo/search"}}});
    const tests::SignedIn member =
        co_await client.SignIn({.id = "person:m", .roles = {{Role::kMember, "demo/search"}}});
    for (const tests::SignedIn& who : {lead, member}) {
      const Reply tenants = co_await client.CallAs(who, "GET", "/admin/v1/tenants");
      EXPECT_EQ(tenants.body["data"].size(), 1u) << tenants.text;
      const Reply models = co_await client.CallAs(who, "GET", "/admin/v1/models");
      EXPECT_THAT(models.text, Not(HasSubstr("chat-large")));
      EXPECT_THAT(models.text, HasSubstr("chat-small"));
      const Reply usage = co_await client.CallAs(who, "GET", "/admin/v1/usage?by=tenant");
      EXPECT_EQ(usage.status, 200) << usage.text;
      EXPECT_THAT(usage.text, Not(HasSubstr("\"demo\"")));
      EXPECT_EQ((co_await client.CallAs(who, "GET", "/admin/v1/usage?tenant=demo")).status, 403);
      const Reply limits = co_await client.CallAs(who, "GET", "/admin/v1/limits");
      EXPECT_THAT(limits.text, Not(HasSubstr("\"scope\":\"demo\"")));
      EXPECT_EQ((co_await client.CallAs(who, "GET", "/admin/v1/keys/" + others)).status, 404);
    }
    Reply keys = co_await client.CallAs(lead, "GET", "/admin/v1/keys");
    EXPECT_THAT(keys.text, HasSubstr(theirs));
    EXPECT_THAT(keys.text, Not(HasSubstr(others)));
    keys = co_await client.CallAs(member, "GET", "/admin/v1/keys");
    EXPECT_EQ(keys.body["data"].size(), 0u) << "keys of others are not a member's to see";
  });
}

// Invariant 12: what others run shows in no list, no answer and no reason.
TEST(People, LeadsSeeThatDevicesAreHeldAndNotByWhichJobsOfOthers) {
  World world;
  tests::ScriptedLauncher launcher;
  tests::MemoryStore store;
  tests::JobsWorld jobs(store, launcher, gateway::net::Now());
  (void)jobs.Submit("name: secret\ncommand: [x]\ndevices: [{kind: h100}]\n");
  jobs.Settle();
  world.operations.jobs = [&] { return jobs.jobs.get(); };
  world.operations.planner = [&] { return &jobs.planner(); };
  WithAdmin(world, [&](AdminClient& client) -> Task<void> {
    const tests::SignedIn lead =
        co_await client.SignIn({.id = "person:l", .roles = {{Role::kLead, "demo/search"}}});
    const tests::SignedIn viewer = co_await client.SignIn({.id = "person:v", .roles = {{Role::kViewer, {}}}});
    EXPECT_THAT((co_await client.CallAs(viewer, "GET", "/admin/v1/nodes")).text, HasSubstr("\"secret-1\""));
    const Reply nodes = co_await client.CallAs(lead, "GET", "/admin/v1/nodes");
    EXPECT_THAT(nodes.text, Not(HasSubstr("secret-1")));
    EXPECT_THAT(nodes.text, HasSubstr("\"held_by\":[\"a job of others\"]"));
    EXPECT_EQ((co_await client.CallAs(lead, "GET", "/admin/v1/jobs")).body["data"].size(), 0u);
    for (const char* call :
         {"/admin/v1/jobs/secret-1", "/admin/v1/jobs/secret-1/explain", "/admin/v1/jobs/secret-1/logs"}) {
      const Reply reply = co_await client.CallAs(lead, "GET", call);
      EXPECT_EQ(reply.status, 404) << call << ": " << reply.text;
    }
    EXPECT_EQ((co_await client.CallAs(lead, "POST", "/admin/v1/jobs/secret-1:cancel", "{}")).status, 404);
    const Reply submitted = co_await client.CallAs(
        lead, "POST", "/admin/v1/jobs", R"({"job":"name: x\ncommand: [x]\ndevices: [{kind: h100}]\n"})");
    EXPECT_EQ(submitted.status, 403) << submitted.text;
  });
}

TEST(People, AMemberMakesRotatesAndRevokesKeysOfTheirOwn) {
  World world;
  const std::string service = world.AppKey("demo/search").substr(3, 10);
  WithAdmin(world, [&](AdminClient& client) -> Task<void> {
    const tests::SignedIn member =
        co_await client.SignIn({.id = "person:m", .roles = {{Role::kMember, "demo/search"}}});
    EXPECT_EQ((co_await client.CallAs(member, "POST", "/admin/v1/keys", R"({"tenant":"demo"})")).status, 403);
    EXPECT_EQ((co_await client.CallAs(member, "POST", "/admin/v1/keys", R"({"role":"viewer"})")).status, 403);
    const Reply made = co_await client.CallAs(member, "POST", "/admin/v1/keys", R"({"tenant":"search"})");
    EXPECT_EQ(made.status, 201) << made.text;
    EXPECT_EQ(made.body["owner"], "person:m");
    const std::string id = made.body["id"];
    const Reply keys = co_await client.CallAs(member, "GET", "/admin/v1/keys");
    EXPECT_EQ(keys.body["data"].size(), 1u) << keys.text;
    const tests::SignedIn other =
        co_await client.SignIn({.id = "person:n", .roles = {{Role::kMember, "demo/search"}}});
    EXPECT_EQ((co_await client.CallAs(other, "POST", "/admin/v1/keys/" + id + ":revoke", "{}")).status, 404);
    EXPECT_EQ((co_await client.CallAs(member, "POST", "/admin/v1/keys/" + service + ":revoke", "{}")).status,
              404);
    const Reply next = co_await client.CallAs(member, "POST", "/admin/v1/keys/" + id + ":rotate", "{}");
    EXPECT_EQ(next.status, 201) << next.text;
    EXPECT_EQ(next.body["owner"], "person:m");
    const std::string second = next.body["id"];
    EXPECT_EQ((co_await client.CallAs(member, "POST", "/admin/v1/keys/" + second + ":revoke", "{}")).status,
              200);
  });
}

TEST(People, WhoeverHasLeftATenantGetsNoNewSecretOfIt) {
  World world;
  WithAdmin(world, [&](AdminClient& client) -> Task<void> {
    const tests::SignedIn member =
        co_await client.SignIn({.id = "person:m", .roles = {{Role::kMember, "demo/search"}}});
    const Reply made =
        co_await client.CallAs(member, "POST", "/admin/v1/keys", R"({"tenant":"search","expires":"1h"})");
    EXPECT_EQ(made.status, 201) << made.text;
    const std::string id = made.body["id"];
    const tests::SignedIn later =
        co_await client.SignIn({.id = "person:m", .roles = {{Role::kMember, "elsewhere"}}});
    const Reply rotated =
        co_await client.CallAs(later, "POST", "/admin/v1/keys/" + id + ":rotate", R"({"expires":"300d"})");
    EXPECT_EQ(rotated.status, 403) << rotated.text;
    EXPECT_THAT(rotated.text, Not(HasSubstr("secret")));
    const Reply revoked = co_await client.CallAs(later, "POST", "/admin/v1/keys/" + id + ":revoke", "{}");
    EXPECT_EQ(revoked.status, 200) << revoked.text;
  });
}

TEST(People, KeysOfATenantsOwnPeopleAreNoMoreUrgentThanTheTenant) {
  World world;
  WithAdmin(world, [&](AdminClient& client) -> Task<void> {
    const tests::SignedIn member =
        co_await client.SignIn({.id = "person:m", .roles = {{Role::kMember, "demo/search"}}});
    const tests::SignedIn lead = co_await client.SignIn({.id = "person:l", .roles = {{Role::kLead, "demo"}}});
    const tests::SignedIn op = co_await client.SignIn({.id = "person:o", .roles = {{Role::kOperator, {}}}});
    const auto ask = [&](const tests::SignedIn& who, const char* priority) {
      return client.CallAs(who, "POST", "/admin/v1/keys",
                           fmt::format(R"({{"tenant":"search","priority":"{}"}})", priority));
    };
    for (const tests::SignedIn& who : {member, lead}) {
      for (const char* priority : {"normal", "low"}) {
        const Reply made = co_await ask(who, priority);
        EXPECT_EQ(made.status, 201) << made.text;
      }
      const Reply refused = co_await ask(who, "high");
      EXPECT_EQ(refused.status, 400) << refused.text;
      EXPECT_THAT(refused.message(), HasSubstr("\"high\" is more urgent than the priority of demo/search"));
    }
    EXPECT_EQ((co_await ask(op, "high")).status, 201);
  });
}

// Invariant 12: a name that is tried tells nothing of what others have.
TEST(People, AKeyThatCannotBeMadeTellsNothingOfOtherTenantsAndModels) {
  World world;
  WithAdmin(world, [&](AdminClient& client) -> Task<void> {
    const tests::SignedIn member =
        co_await client.SignIn({.id = "person:m", .roles = {{Role::kMember, "demo/search"}}});
    const auto ask = [&](const char* body) { return client.CallAs(member, "POST", "/admin/v1/keys", body); };
    const Reply tenant = co_await ask(R"({"tenant":"demo/search/x"})");
    EXPECT_EQ(tenant.status, 400) << tenant.text;
    EXPECT_EQ(tenant.message(), "tenant: no tenant \"demo/search/x\" is known here");
    const Reply hidden = co_await ask(R"({"tenant":"search","models":["chat-large"]})");
    const Reply nothing = co_await ask(R"({"tenant":"search","models":["chat-larg"]})");
    for (const Reply& reply : {hidden, nothing}) {
      EXPECT_EQ(reply.status, 400) << reply.text;
      EXPECT_THAT(reply.message(), Not(HasSubstr("\"chat-large\"?")));
      EXPECT_THAT(reply.message(), HasSubstr("is not a model"));
    }
    EXPECT_EQ((co_await ask(R"({"tenant":"search","models":["chat-small"]})")).status, 201);
  });
}

TEST(People, TheBootstrapKeyStopsOnceThereIsAnAdmin) {
  World world;
  WithAdmin(world, [&](AdminClient& client) -> Task<void> {
    const std::string boot(tests::kBootstrapKey);
    EXPECT_EQ((co_await client.Call("GET", "/admin/v1/me", boot)).status, 200);
    const Reply made = co_await client.Call("POST", "/admin/v1/keys", boot, R"({"role":"admin"})");
    EXPECT_EQ(made.status, 201);
    const Reply after = co_await client.Call("GET", "/admin/v1/me", boot);
    EXPECT_EQ(after.status, 401);
    EXPECT_EQ(after.code(), "key_revoked");
    EXPECT_EQ((co_await client.Call("GET", "/admin/v1/me", made.body["secret"])).status, 200);
  });
}

TEST(People, AnApplicationsKeySeesItselfAndNothingElse) {
  World world;
  const std::string key = world.AppKey("demo/search");
  WithAdmin(world, [&](AdminClient& client) -> Task<void> {
    const Reply me = co_await client.Call("GET", "/admin/v1/me", key);
    EXPECT_EQ(me.status, 200) << me.text;
    EXPECT_EQ(me.body["kind"], "application");
    EXPECT_THAT(me.body["permissions"], ElementsAre("see_self"));
    EXPECT_EQ((co_await client.Call("GET", "/admin/v1/usage", key)).status, 403);
  });
}

}  // namespace
