#include "gateway/admin/admin_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <filesystem>

#include "gateway/admin/readiness.h"
#include "gateway/api/coded_status.h"
#include "gateway/store/sqlite_store.h"
#include "tests/support/sanitized.h"
#include "tests/unit/gateway/admin/world.h"

namespace {

using gateway::ledger::Kind;
using gateway::net::Task;
using plugins::auth::Role;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using tests::AdminClient;
using tests::Reply;
using tests::WithAdmin;
using tests::World;

const std::string kBoot(tests::kBootstrapKey);

TEST(AdminAccess, RolesDecideWhichCallsAreAllowed) {
  World world;
  const std::string viewer = world.AdminKey(Role::kViewer);
  const std::string op = world.AdminKey(Role::kOperator);
  const std::string admin = world.AdminKey(Role::kAdmin);
  const std::string app = world.AppKey();
  struct Case {
    const char* method;
    const char* path;
    std::string key;
    std::string body;
    int status;
    const char* code;
  };
  const std::vector<Case> cases = {
      {"GET", "/livez", "", "", 200, ""},
      {"GET", "/readyz", "", "", 200, ""},
      {"GET", "/metrics", "", "", 200, ""},
      {"GET", "/admin/v1/openapi.json", "", "", 200, ""},
      {"GET", "/admin/v1/tenants", "", "", 401, "missing_api_key"},
      {"GET", "/admin/v1/tenants", "tg-nobody", "", 401, "invalid_api_key"},
      {"GET", "/admin/v1/tenants", kBoot + "x", "", 401, "invalid_api_key"},
      {"GET", "/admin/v1/tenants", app, "", 403, "permission_denied"},
      {"GET", "/admin/v1/tenants", viewer, "", 200, ""},
      {"GET", "/admin/v1/tenants", kBoot, "", 401, "key_revoked"},
      {"GET", "/admin/v1/audit", viewer, "", 403, "permission_denied"},
      {"GET", "/admin/v1/audit?kind=content", op, "", 403, "permission_denied"},
      {"GET", "/admin/v1/audit?kind=content", admin, "", 200, ""},
      {"GET", "/admin/v1/config", viewer, "", 403, "permission_denied"},
      {"POST", "/admin/v1/keys", viewer, R"({"tenant":"search"})", 403, "permission_denied"},
      {"POST", "/admin/v1/keys", op, R"({"tenant":"search"})", 201, ""},
      {"POST", "/admin/v1/keys", op, R"({"role":"viewer"})", 403, "permission_denied"},
      {"POST", "/admin/v1/keys", admin, R"({"role":"viewer"})", 201, ""},
      {"POST", "/admin/v1/config:reload", viewer, "", 403, "permission_denied"},
      {"GET", "/admin/v1/nothing", admin, "", 404, "not_found"},
      {"DELETE", "/admin/v1/keys", admin, "", 405, "method_not_allowed"},
      {"GET", "/admin/v1/keys/unknown", admin, "", 404, "not_found"},
  };
  WithAdmin(world, [&](AdminClient& client) -> Task<void> {
    for (const Case& c : cases) {
      const Reply reply = co_await client.Call(c.method, c.path, c.key, c.body);
      EXPECT_EQ(reply.status, c.status) << c.method << ' ' << c.path << ": " << reply.text;
      if (c.status >= 400) EXPECT_EQ(reply.code(), c.code) << reply.text;
      EXPECT_THAT(reply.text, Not(HasSubstr(kBoot)));
    }
  });
}

TEST(AdminAccess, AnAddressThatGuessesIsToldToWaitAndAValidKeyIsServed) {
  World world("admin: {bootstrap_key: env:BOOT}\nauth: {failed_per_minute: 3}\n");
  WithAdmin(world, [&](AdminClient& client) -> Task<void> {
    for (int i = 0; i < 3; ++i) EXPECT_EQ((co_await client.Call("GET", "/admin/v1/me", "guess")).status, 401);
    const tests::Reply late = co_await client.Call("GET", "/admin/v1/me", "guess");
    EXPECT_EQ(late.status, 429) << late.text;
    EXPECT_EQ(late.code(), "too_many_failed_attempts");
    EXPECT_TRUE(late.headers.contains("retry-after"));
    EXPECT_EQ((co_await client.Call("GET", "/admin/v1/nowhere")).status, 429);
    EXPECT_EQ((co_await client.Call("GET", "/livez")).status, 200);
    EXPECT_EQ((co_await client.Call("GET", "/admin/v1/me", std::string(tests::kBootstrapKey))).status, 200);
    const std::optional<gateway::ledger::Event> record =
        world.shared.failed_attempts.Take(gateway::net::Now());
    EXPECT_TRUE(record.has_value());
    if (record) EXPECT_NE(record->detail.find("admin_unauthenticated"), std::string::npos);
  });
}

TEST(AdminAccess, TheListenerForPeopleHasNoKeysMetricsAndHealth) {
  World world;
  AdminClient client(world.loop, world, gateway::admin::AdminServer::Audience::kPeople);
  world.Await([&]() -> Task<bool> {
    for (const char* path : {"/metrics", "/livez", "/readyz"})
      EXPECT_EQ((co_await client.Call("GET", path)).status, 404) << path;
    EXPECT_EQ((co_await client.Call("GET", "/admin/v1/me", kBoot)).status, 401);
    EXPECT_EQ((co_await client.Call("GET", "/admin/v1/sign-in")).status, 200);
    const tests::SignedIn ada = co_await client.SignIn({.id = "person:ada", .roles = {{Role::kViewer, {}}}});
    EXPECT_EQ((co_await client.CallAs(ada, "GET", "/admin/v1/models")).status, 200);
    co_return true;
  }());
  client.Close();
}

TEST(AdminAccess, MetricsTakeAKeyWhenTheyAreProtected) {
  World world("admin: {bootstrap_key: env:BOOT, protect_metrics: true}\n");
  WithAdmin(world, [&](AdminClient& client) -> Task<void> {
    EXPECT_EQ((co_await client.Call("GET", "/metrics")).status, 401);
    EXPECT_EQ((co_await client.Call("GET", "/metrics", kBoot)).status, 200);
    EXPECT_EQ((co_await client.Call("GET", "/livez")).status, 200);
  });
}

TEST(AdminAccess, AnOperatorDoesNotTouchAdminKeys) {
  World world;
  const std::string op = world.AdminKey(Role::kOperator);
  const std::string known = world.AdminKey(Role::kAdmin).substr(3, 10);
  // Made by another process, a moment ago.
  const auto other = *gateway::OpenState(world.loop, world.dir.path());
  gateway::Keys cli(world.loop, *other);
  ASSERT_TRUE(world.Await(cli.Start()).ok());
  plugins::auth::KeySpec admin;
  admin.role = Role::kAdmin;
  const std::string fresh = world.Await(cli.Create(admin, gateway::net::Now()))->record->id;
  cli.Stop();
  WithAdmin(world, [&](AdminClient& client) -> Task<void> {
    for (const std::string& target : {fresh, known}) {
      for (const char* action : {":rotate", ":revoke"}) {
        const Reply reply = co_await client.Call("POST", "/admin/v1/keys/" + target + action, op);
        EXPECT_EQ(reply.status, 403) << reply.text;
        EXPECT_EQ(reply.code(), "permission_denied") << reply.text;
      }
    }
  });
}

TEST(AdminInput, ReportsEveryProblemAtOnceWithASuggestion) {
  World world;
  WithAdmin(world, [&](AdminClient& client) -> Task<void> {
    Reply reply =
        co_await client.Call("POST", "/admin/v1/keys", kBoot, R"({"tenent":"x","models":"chat-small"})");
    EXPECT_EQ(reply.status, 400);
    EXPECT_EQ(reply.code(), "invalid_value");
    EXPECT_THAT(reply.message(), AllOf(HasSubstr("tenent: unknown member, did you mean \"tenant\"?"),
                                       HasSubstr("models: must be a list of strings")));
    EXPECT_EQ(reply.body["error"]["details"].size(), 2u);

    reply = co_await client.Call(
        "POST", "/admin/v1/keys", kBoot,
        R"({"tenant":"serch","models":["chat-smal"],"endpoints":["chats"],"expires":"never",)"
        R"("priority":"hi","limits":{"requests_per_minut":1}})");
    EXPECT_EQ(reply.status, 400);
    EXPECT_THAT(reply.message(),
                AllOf(HasSubstr("unknown tenant \"serch\", did you mean \"search\"?"),
                      HasSubstr("\"chat-smal\" is not a model, did you mean \"chat-small\"?"),
                      HasSubstr("\"chats\" is not an endpoint, did you mean \"chat\"?"),
                      HasSubstr("expires: \"never\""), HasSubstr("unknown priority \"hi\""),
                      HasSubstr("requests_per_minut")));
    EXPECT_EQ(reply.body["error"]["details"].size(), 6u);
  });
}

TEST(AdminInput, QuotedTextInProblemsCannotReverseTheTextDirection) {
  World world;
  WithAdmin(world, [&](AdminClient& client) -> Task<void> {
    const Reply member = co_await client.Call("POST", "/admin/v1/keys", kBoot, R"({"na\u2066me":"x"})");
    EXPECT_EQ(member.status, 400);
    EXPECT_THAT(member.message(), HasSubstr("na\\u2066me: unknown member"));
    EXPECT_EQ(member.body["error"]["param"], "na\\u2066me");
    const Reply values = co_await client.Call("POST", "/admin/v1/keys", kBoot,
                                              R"({"tenant":"de\u202Emo","expires":"a\u001b[2J"})");
    EXPECT_EQ(values.status, 400);
    EXPECT_THAT(values.message(), AllOf(HasSubstr("de\\u202emo"), HasSubstr("a\\x1b[2J")));
    for (const char* hidden : {"\u202E", "\u2066", "\x1b", "\\u001b"})
      EXPECT_THAT(member.text + values.text, Not(HasSubstr(hidden)));
  });
}

TEST(AdminInput, RefusesWhatIsNotOneJsonObject) {
  World world;
  WithAdmin(world, [&](AdminClient& client) -> Task<void> {
    for (const char* body : {"{", "[]", "{\"name\":\"a\",\"name\":\"b\"}", "{} {}", "\xff"}) {
      const Reply reply = co_await client.Call("POST", "/admin/v1/keys", kBoot, body);
      EXPECT_EQ(reply.status, 400) << body;
    }
    EXPECT_EQ((co_await client.Call("POST", "/admin/v1/keys", kBoot, "a=b", "text/plain")).status, 415);
    const Reply large = co_await client.Call("POST", "/admin/v1/keys", kBoot, std::string(300 * 1024, ' '));
    EXPECT_EQ(large.status, 413) << large.text;
    EXPECT_EQ(large.code(), "request_too_large") << large.text;
    EXPECT_EQ(large.headers.count("x-request-id"), 1u) << "as every other answer";
    if (large.headers.contains("x-request-id")) {
      EXPECT_EQ(large.headers.at("x-request-id"), large.body["error"]["request_id"].get<std::string>());
    }
    EXPECT_TRUE(world.shared.keys->List().empty());
  });
}

TEST(AdminInput, AHeadThatIsTooLargeIsRefusedWithARequestId) {
  World world;
  WithAdmin(world, [&](AdminClient& client) -> Task<void> {
    const Reply large = co_await client.Call("GET", "/livez", std::string(128 * 1024, 'k'));
    EXPECT_EQ(large.status, 431) << large.text;
    EXPECT_EQ(large.headers.count("x-request-id"), 1u);
  });
}

TEST(AdminInput, ANumberThatIsTooLargeIsReported) {
  World world;
  WithAdmin(world, [&](AdminClient& client) -> Task<void> {
    Reply reply = co_await client.Call("GET", "/admin/v1/keys?limit=1000000000000000000000", kBoot);
    EXPECT_THAT(reply.message(), HasSubstr("too large"));
    reply = co_await client.Call("POST", "/admin/v1/keys", kBoot,
                                 R"({"tenant":"search","limits":{"budget":{"usd":1000000000000000000}}})");
    EXPECT_EQ(reply.status, 400);
    EXPECT_THAT(reply.message(), AllOf(HasSubstr("1000000000000000000 is too large"), HasSubstr("at most")));
    reply =
        co_await client.Call("POST", "/admin/v1/keys", kBoot,
                             R"({"tenant":"search","limits":{"requests_per_minute":10000000000000000000}})");
    EXPECT_THAT(reply.message(), HasSubstr("is too large"));
  });
}

// A mistyped state would show an empty list, as if there were nothing.
TEST(AdminInput, RefusesAStateThatThereIsNot) {
  World world;
  WithAdmin(world, [&](AdminClient& client) -> Task<void> {
    for (const auto& [list, state] : std::vector<std::pair<std::string, std::string>>{
             {"keys", "revoked"}, {"grants", "in_force"}, {"requests", "pending"}}) {
      const std::string path = "/admin/v1/" + list + "?state=";
      EXPECT_EQ((co_await client.Call("GET", path + state, kBoot)).status, 200) << list;
      EXPECT_EQ((co_await client.Call("GET", path, kBoot)).status, 200) << list;
      const Reply reply = co_await client.Call("GET", path + "gone", kBoot);
      EXPECT_EQ(reply.status, 400) << list;
      EXPECT_EQ(reply.body["error"]["param"], "state");
      EXPECT_THAT(reply.message(), AllOf(HasSubstr("\"gone\" must be one of "), HasSubstr(state)));
    }
  });
}

TEST(AdminInput, RefusesUnknownParametersAndBadOnes) {
  World world;
  WithAdmin(world, [&](AdminClient& client) -> Task<void> {
    Reply reply = co_await client.Call("GET", "/admin/v1/usage?sinse=7d&by=tenants", kBoot);
    EXPECT_EQ(reply.status, 400);
    EXPECT_THAT(reply.message(), HasSubstr("sinse: unknown parameter, did you mean \"since\"?"));
    for (const char* target :
         {"/admin/v1/usage?by=tenants", "/admin/v1/usage?since=yesterday", "/admin/v1/audit?kind=opens",
          "/admin/v1/audit?from_seq=-1", "/admin/v1/keys?limit=0", "/admin/v1/keys?limit=1001",
          "/admin/v1/keys?limit=1&limit=2", "/admin/v1/keys?after=nobody", "/admin/v1/keys?tenant=%zz",
          "/admin/v1/usage?since=2026-01-02&until=2026-01-01", "/admin/v1/usage?after=model",
          "/admin/v1/feedback?after=-1"}) {
      reply = co_await client.Call("GET", target, kBoot);
      EXPECT_EQ(reply.status, 400) << target << reply.text;
    }
  });
}

TEST(AdminKeys, AKeyIsMadeShownRotatedAndRevoked) {
  World world;
  WithAdmin(world, [&](AdminClient& client) -> Task<void> {
    Reply made =
        co_await client.Call("POST", "/admin/v1/keys", kBoot,
                             R"({"tenant":"search","name":"ci","expires":"30d","limits":{"concurrency":4}})");
    EXPECT_EQ(made.status, 201) << made.text;
    EXPECT_EQ(made.body["tenant"], "demo/search");
    EXPECT_EQ(made.body["state"], "active");
    const std::string secret = made.body["secret"];
    const std::string id = made.body["id"];
    EXPECT_TRUE(Check(*world.shared.keys->Table(), secret, gateway::net::Now()).ok());
    EXPECT_EQ(world.published, 1);

    const Reply listed = co_await client.Call("GET", "/admin/v1/keys?tenant=demo", kBoot);
    EXPECT_EQ(listed.body["data"].size(), 1u);
    EXPECT_THAT(listed.text, AllOf(Not(HasSubstr(secret)), Not(HasSubstr("hash")), HasSubstr(id)));

    const Reply rotated =
        co_await client.Call("POST", "/admin/v1/keys/" + id + ":rotate", kBoot, R"({"overlap":"1h"})");
    EXPECT_EQ(rotated.status, 201) << rotated.text;
    EXPECT_EQ(rotated.body["rotated_from"], id);
    EXPECT_EQ((co_await client.Call("POST", "/admin/v1/keys/" + id + ":rotate", kBoot)).status, 409);

    const Reply revoked =
        co_await client.Call("POST", "/admin/v1/keys/" + id + ":revoke", kBoot, R"({"reason":"leaked"})");
    EXPECT_EQ(revoked.body["state"], "revoked");
    EXPECT_FALSE(Check(*world.shared.keys->Table(), secret, gateway::net::Now()).ok());
    EXPECT_EQ(world.published, 3);
  });
  const std::vector<tests::json> records = world.Records(Kind::kKey);
  ASSERT_EQ(records.size(), 3u);
  EXPECT_EQ(records[0]["action"], "created");
  EXPECT_EQ(records[0]["actor"], "bootstrap");
  EXPECT_EQ(records[1]["action"], "rotated");
  EXPECT_EQ(records[2]["action"], "revoked");
}

TEST(AdminKeys, ListsComeInPages) {
  World world;
  for (int i = 0; i < 5; ++i) world.AppKey();
  WithAdmin(world, [&](AdminClient& client) -> Task<void> {
    std::vector<std::string> seen;
    std::string target = "/admin/v1/keys?limit=2";
    for (int page = 0; page < 3; ++page) {
      const Reply reply = co_await client.Call("GET", target, kBoot);
      for (const auto& key : reply.body["data"]) seen.push_back(key["id"]);
      EXPECT_EQ(reply.body["has_more"], page < 2);
      if (page < 2) target = "/admin/v1/keys?limit=2&after=" + reply.body["next"].get<std::string>();
    }
    std::vector<std::string> all;
    for (const auto& key : world.shared.keys->List()) all.push_back(key->id);
    EXPECT_EQ(seen, all);
  });
}

TEST(AdminConfig, ARefusedReloadReportsEveryProblem) {
  World world;
  world.reload_result = absl::InvalidArgumentError("t.yaml:/models: one\nt.yaml:/tenants: two");
  WithAdmin(world, [&](AdminClient& client) -> Task<void> {
    Reply reply = co_await client.Call("POST", "/admin/v1/config:reload", kBoot);
    EXPECT_EQ(reply.status, 422);
    EXPECT_EQ(reply.code(), "invalid_config");
    EXPECT_EQ(reply.body["error"]["details"].size(), 2u);
    EXPECT_EQ(world.reloaded_by, "bootstrap");
    world.reload_result = absl::OkStatus();
    reply = co_await client.Call("POST", "/admin/v1/config:reload", kBoot);
    EXPECT_EQ(reply.status, 200);
    EXPECT_EQ(reply.body["sha256"], world.runtime->hash());
    reply = co_await client.Call("GET", "/admin/v1/config", kBoot);
    EXPECT_EQ(reply.body["config"]["admin"]["bootstrap_key"], "env:BOOT");
    EXPECT_THAT(reply.text, Not(HasSubstr(kBoot)));
  });
}

TEST(AdminConfig, TooManyReloadsAreNoFailureOfTheLedger) {
  World world;
  world.reload_result = gateway::api::WithCode(absl::ResourceExhaustedError("16 reloads wait already"),
                                               gateway::api::Code::kTooManyReloads);
  WithAdmin(world, [&](AdminClient& client) -> Task<void> {
    const Reply reply = co_await client.Call("POST", "/admin/v1/config:reload", kBoot);
    EXPECT_EQ(reply.status, 429);
    EXPECT_EQ(reply.code(), "too_many_reloads");
  });
}

TEST(AdminRecords, ASlowReaderDoesNotHoldUpOthers) {
  World world;
  const int records = tests::kSanitized ? 2'000 : 20'000;
  for (int i = 0; i < records; ++i) world.Serve("demo/search", "chat-small", 1, 1);
  EXPECT_TRUE(world.shared.ledger->Flush().ok());
  WithAdmin(world, [&](AdminClient& client) -> Task<void> {
    // So that what follows need not fill the index.
    EXPECT_EQ((co_await client.Call("GET", "/admin/v1/usage", kBoot)).status, 200);
    std::vector<std::string> order;
    std::array<gateway::net::Event, 3> slow;
    gateway::net::Event quick;
    const auto ask = [&](std::string name, std::string target, gateway::net::Event& done) -> Task<void> {
      const Reply reply = co_await client.Call("GET", target, kBoot);
      EXPECT_EQ(reply.status, 200) << reply.text;
      order.push_back(name);
      done.Set();
    };
    // It matches nothing, so that it looks at every record.
    for (gateway::net::Event& one : slow)
      world.loop.tasks.Spawn(ask("audit", "/admin/v1/audit?model=nothing", one));
    world.loop.tasks.Spawn(ask("usage", "/admin/v1/usage", quick));
    for (gateway::net::Event& one : slow) co_await one.Wait();
    co_await quick.Wait();
    EXPECT_NE(order.back(), "usage");
  });
}

TEST(AdminRecords, UsageIsGroupedAndAuditIsPaged) {
  World world;
  world.Serve("demo/search", "chat-small", 100, 20);
  world.Serve("demo/search", "chat-small", 1, 2);
  world.Serve("demo", "chat-large", 7, 3);
  WithAdmin(world, [&](AdminClient& client) -> Task<void> {
    Reply reply = co_await client.Call("GET", "/admin/v1/usage?by=tenant,model&since=1h", kBoot);
    EXPECT_EQ(reply.status, 200) << reply.text;
    EXPECT_EQ(reply.body["data"].size(), 2u);
    EXPECT_EQ(reply.body["data"][1], tests::json({{"tenant", "demo/search"},
                                                  {"model", "chat-small"},
                                                  {"requests", 2},
                                                  {"errors", 0},
                                                  {"failed", 0},
                                                  {"input_tokens", 101},
                                                  {"cached_tokens", 0},
                                                  {"output_tokens", 22},
                                                  {"cost_micro_usd", 123},
                                                  {"device_seconds", tests::json::object()}}));
    reply = co_await client.Call("GET", "/admin/v1/usage?tenant=search", kBoot);
    EXPECT_EQ(reply.body["data"][0]["input_tokens"], 101);
    reply = co_await client.Call("GET", "/admin/v1/usage?by=model&limit=1&after=1", kBoot);
    EXPECT_EQ(reply.body["data"][0]["model"], "chat-small");
    EXPECT_EQ(reply.body["has_more"], false);

    reply = co_await client.Call("GET", "/admin/v1/audit?kind=close&limit=2", kBoot);
    EXPECT_EQ(reply.status, 200) << reply.text;
    EXPECT_EQ(reply.body["data"].size(), 2u);
    EXPECT_EQ(reply.body["has_more"], true);
    const uint64_t next = reply.body["next_from_seq"];
    reply = co_await client.Call("GET", fmt::format("/admin/v1/audit?kind=close&limit=2&from_seq={}", next),
                                 kBoot);
    EXPECT_EQ(reply.body["data"].size(), 1u);
    EXPECT_EQ(reply.body["data"][0]["model"], "chat-large");
    EXPECT_EQ(reply.body["has_more"], false);
  });
}

TEST(AdminRecords, ReadersLeaveARecordOncePerWindowAndOthersTheirOwn) {
  World world;
  world.Serve("demo/search", "chat-small", 100, 20);
  const std::string key = world.AdminKey(Role::kOperator);
  WithAdmin(world, [&](AdminClient& client) -> Task<void> {
    for (const std::string& bearer : {std::string(kBoot), std::string(kBoot), key}) {
      EXPECT_EQ((co_await client.Call("GET", "/admin/v1/audit?kind=close&limit=1", bearer)).status, 200);
    }
    EXPECT_EQ((co_await client.Call("GET", "/admin/v1/audit?kind=close&limit=1&from_seq=2", kBoot)).status,
              200);
    EXPECT_EQ((co_await client.Call("GET", "/admin/v1/audit?kind=open", kBoot)).status, 200);
    EXPECT_EQ((co_await client.Call("GET", "/admin/v1/usage", kBoot)).status, 200);
  });
  std::vector<std::string> readers;
  for (const tests::json& record : world.Records(gateway::ledger::Kind::kAdmin)) {
    EXPECT_EQ(record["action"], "audit.read");
    readers.push_back(record["actor"].get<std::string>() + " " + record["detail"].value("kind", ""));
  }
  EXPECT_EQ(readers,
            (std::vector<std::string>{"bootstrap close", key.substr(3, 10) + " close", "bootstrap open"}));
}

TEST(AdminRecords, ContentIsOpenedForTheRoleAdminAloneAndEachTimeRecorded) {
  World world;
  constexpr char kPrompt[] = "the patient's name is Ada";
  gateway::ledger::OpenRecord open{.time_us = 1, .request = "req_1", .tenant = "demo/search"};
  auto ticket = world.shared.ledger->Shard(0).Open(open);
  ticket->Content({.part = gateway::ledger::ContentPart::kPrompt,
                   .text = kPrompt,
                   .key = world.shared.content_keys->For("demo/search").get()});
  ticket->Close({.time_us = 2});
  ASSERT_TRUE(world.shared.ledger->Flush().ok());
  const std::string key = world.AdminKey(Role::kOperator);
  bool published = false;
  world.operations.content_erased = [&] { published = true; };
  WithAdmin(world, [&](AdminClient& client) -> Task<void> {
    const std::string path = "/admin/v1/audit?kind=content";
    Reply reply = co_await client.Call("GET", path, kBoot);
    EXPECT_EQ(reply.status, 200) << reply.text;
    EXPECT_THAT(reply.text, Not(HasSubstr("patient")));
    EXPECT_EQ((co_await client.Call("GET", path + "&content=open", key)).status, 403);
    EXPECT_EQ((co_await client.Call("GET", path + "&content=shut", kBoot)).status, 400);
    for (int i = 0; i < 2; ++i) {
      reply = co_await client.Call("GET", path + "&content=open", kBoot);
      EXPECT_EQ(reply.body["data"][0]["text"], kPrompt) << reply.text;
    }
    EXPECT_EQ((co_await client.Call("POST", "/admin/v1/content:erase", key, R"({"tenant":"demo"})")).status,
              403);
    EXPECT_EQ((co_await client.Call("POST", "/admin/v1/content:erase", kBoot, R"({"tenant":"no"})")).status,
              404);
    reply = co_await client.Call("POST", "/admin/v1/content:erase", kBoot,
                                 R"({"tenant":"search","reason":"request 4711"})");
    EXPECT_EQ(reply.status, 200) << reply.text;
    EXPECT_EQ(reply.body["erased"].size(), 1u);
    reply = co_await client.Call("GET", path + "&content=open", kBoot);
    EXPECT_THAT(reply.text, AllOf(HasSubstr("erased"), Not(HasSubstr("patient"))));
  });
  EXPECT_TRUE(published);
  std::vector<std::string> actions;
  for (const tests::json& record : world.Records(gateway::ledger::Kind::kAdmin)) {
    actions.push_back(record["action"]);
    EXPECT_THAT(record.dump(), Not(HasSubstr("patient")));
  }
  EXPECT_EQ(std::ranges::count(actions, "content.read"), 2) << "what is erased was not read";
  EXPECT_EQ(std::ranges::count(actions, "content.erase"), 1);
}

TEST(AdminRecords, ADataSetHasOnlyTheTenantThatTheCallNames) {
  World world;
  const auto tell = [&](const char* request, const char* tenant, const char* prompt) {
    gateway::ledger::OpenRecord open{
        .time_us = 1, .request = request, .tenant = tenant, .model = "chat-small", .api = "chat_completions"};
    auto ticket = world.shared.ledger->Shard(0).Open(open);
    const auto* const key = world.shared.content_keys->For(tenant).get();
    const std::string asked =
        fmt::format(R"({{"model":"chat-small","messages":[{{"role":"user","content":"{}"}}]}})", prompt);
    const std::string said = R"({"choices":[{"index":0,"message":{"role":"assistant","content":"yes"}}]})";
    for (const auto& [part, text] :
         {std::pair(gateway::ledger::ContentPart::kPrompt, std::string_view(asked)),
          std::pair(gateway::ledger::ContentPart::kAnswer, std::string_view(said))})
      ticket->Content({.part = part, .text = text, .full_bytes = text.size(), .key = key});
    ticket->Close({.time_us = 2, .reason = gateway::ledger::EndReason::kDone, .status = 200});
  };
  tell("req_1", "demo", "of the organisation");
  tell("req_2", "demo/search", "of one team");
  WithAdmin(world, [&](AdminClient& client) -> Task<void> {
    const auto ask = [&](std::string body) {
      return client.Call("POST", "/admin/v1/datasets:export", kBoot, std::move(body));
    };
    Reply reply = co_await ask("{}");
    EXPECT_EQ(reply.body["lines"].size(), 2u) << reply.text;
    for (const char* tenant : {R"({"tenant":"search"})", R"({"tenant":"demo/search"})"}) {
      reply = co_await ask(tenant);
      EXPECT_EQ(reply.body["lines"].size(), 1u) << reply.text;
      EXPECT_THAT(reply.text, AllOf(HasSubstr("of one team"), Not(HasSubstr("organisation"))));
    }
    reply = co_await ask(R"({"tenant":"demo"})");
    EXPECT_EQ(reply.body["lines"].size(), 2u) << reply.text;
    reply = co_await ask(R"({"tenant":"elsewhere"})");
    EXPECT_EQ(reply.body["lines"].size(), 0u) << reply.text;
  });
  std::vector<std::string> tenants;
  for (const tests::json& record : world.Records(gateway::ledger::Kind::kAdmin))
    if (record["action"] == "dataset.export") tenants.push_back(record.value("tenant", ""));
  EXPECT_THAT(tenants, testing::ElementsAre("", "demo/search", "demo/search", "demo"));
}

TEST(AdminReadiness, SaysWhatIsDegraded) {
  struct Case {
    const char* what;
    std::function<void(World&)> spoil;
    int status;
    const char* part;
  };
  const std::vector<Case> cases = {
      {"stopping", [](World& w) { w.shared.stopping = true; }, 503, "process"},
      {"disk", [](World& w) { w.shared.disk_low = true; }, 503, "disk"},
      {"ledger", [](World& w) { EXPECT_TRUE(w.shared.ledger->Stop().ok()); }, 503, "ledger"},
      {"reload", [](World& w) { w.reloads.last_ok = false; }, 200, "config"},
      {"keys",
       [](World& w) {
         const std::string path = gateway::StorePath(w.dir.path());
         std::filesystem::rename(path, path + ".away");
       },
       200, "keys"},
      {"redis",
       [](World& w) {
         w.outbound.sharing.emplace();
         w.outbound.sharing->state = gateway::SharingState::kKeepingShares;
       },
       200, "redis"},
      {"sink",
       [](World& w) {
         gateway::SinkStatus& sink = w.outbound.sinks.emplace_back();
         sink.name = "s";
         sink.failing = true;
       },
       200, "sink:s"},
      {"jwks", [](World& w) { w.issuers = {{"https://issuer", false, "unreachable"}}; }, 200,
       "jwks:https://issuer"},
      {"model",
       [](World& w) {
         router::Health& health = w.runtime->load()[router::ReplicaId{2}].health;
         for (int i = 0; i < 10; ++i) health.OnProbe(router::ProbeResult::kFailed, gateway::net::Now());
       },
       200, "model:chat-large"},
  };
  for (const Case& c : cases) {
    World world;
    WithAdmin(world, [&](AdminClient& client) -> Task<void> {
      Reply reply = co_await client.Call("GET", "/readyz");
      EXPECT_EQ(reply.status, 200);
      EXPECT_EQ(reply.body["status"], "ok");
      c.spoil(world);
      EXPECT_TRUE(co_await tests::Eventually(world.loop, [&] {
        return !gateway::admin::Judge(world.operations, gateway::net::Now()).degraded.empty();
      })) << c.what;
      reply = co_await client.Call("GET", "/readyz");
      EXPECT_EQ(reply.status, c.status) << c.what;
      EXPECT_EQ(reply.body["ready"], c.status == 200) << c.what;
      EXPECT_EQ(reply.body["degraded"][0]["part"], c.part) << reply.text;
      EXPECT_EQ((co_await client.Call("GET", "/livez")).status, 200) << c.what;
    });
  }
}

TEST(AdminServer, AnswersHeadWithoutABody) {
  World world;
  WithAdmin(world, [&](AdminClient& client) -> Task<void> {
    const Reply reply = co_await client.Call("HEAD", "/livez");
    EXPECT_EQ(reply.status, 200);
    EXPECT_EQ(reply.text, "");
  });
}

TEST(AdminServer, TakesUpKeyChangesOfTheCommandLine) {
  World world;
  WithAdmin(world, [&](AdminClient& client) -> Task<void> {
    const auto other = *gateway::store::OpenSqliteStore(
        world.loop, {.file = {.path = gateway::StorePath(world.dir.path())}});
    gateway::Keys cli(world.loop, *other);
    EXPECT_TRUE((co_await cli.Start()).ok());
    plugins::auth::KeySpec spec;
    spec.tenant = "demo/search";
    EXPECT_TRUE((co_await cli.Create(spec, gateway::net::Now())).ok());
    cli.Stop();
    const Reply reply = co_await client.Call("POST", "/admin/v1/keys", kBoot, R"({"tenant":"search"})");
    EXPECT_EQ(reply.status, 201);
    EXPECT_EQ(world.Records(Kind::kKey).size(), 2u) << "all that was changed before, too";
  });
}

}  // namespace
