#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <set>

#include "gateway/admin/handlers.h"
#include "gateway/admin/simulations.h"
#include "gateway/control/models/adapter_loads.h"
#include "gateway/control/models/adapters.h"
#include "gateway/control/models/model_orders.h"
#include "gateway/control/nodes/cordons.h"
#include "tests/support/temp_dir.h"
#include "tests/unit/gateway/admin/world.h"
#include "tests/unit/gateway/control/jobs/world.h"

namespace {

using gateway::admin::FindRoute;
using gateway::admin::Route;
using gateway::admin::Routes;
using gateway::net::Task;
using gateway::net::http::Verb;
using plugins::auth::Role;
using tests::json;

json Document() {
  return json::parse(gateway::admin::OpenApi({}, {}).body);
}

std::string Verbatim(Verb verb) {
  return verb == Verb::get ? "get" : verb == Verb::post ? "post" : "delete";
}

// What of `value` does not fit `schema`, by path.
void Fits(const json& document, json schema, const json& value, const std::string& at,
          std::vector<std::string>& wrong) {
  if (schema.contains("anyOf")) {  // another schema, or null
    ASSERT_EQ(schema["anyOf"][1]["type"], "null") << at;
    if (value.is_null()) return;
    const json other = schema["anyOf"][0];
    schema = other;
  }
  if (schema.contains("$ref")) {
    const std::string name =
        schema["$ref"].get<std::string>().substr(std::string("#/components/schemas/").size());
    schema = document["components"]["schemas"].at(name);
  }
  std::set<std::string> types;
  if (schema["type"].is_array()) {
    for (const auto& type : schema["type"]) types.insert(type);
  } else {
    types.insert(schema["type"]);
  }
  const std::string actual = value.is_null()             ? "null"
                             : value.is_boolean()        ? "boolean"
                             : value.is_number_integer() ? "integer"
                             : value.is_number()         ? "number"
                             : value.is_string()         ? "string"
                             : value.is_array()          ? "array"
                                                         : "object";
  // JSON Schema: a whole number is a number.
  if (!types.contains(actual) && !(actual == "integer" && types.contains("number"))) {
    wrong.push_back(at + " is " + actual);
    return;
  }
  if (value.is_array()) {
    for (const auto& item : value) Fits(document, schema["items"], item, at + "[]", wrong);
  }
  if (!value.is_object() || !schema.contains("properties")) return;
  for (const auto& name : schema["required"]) {
    if (!value.contains(name.get<std::string>())) wrong.push_back(at + " lacks " + name.get<std::string>());
  }
  for (const auto& [name, member] : value.items()) {
    if (schema["properties"].contains(name)) {
      Fits(document, schema["properties"][name], member, at + "." + name, wrong);
    } else if (!schema.contains("description")) {
      wrong.push_back(at + " has " + name);
    }
  }
}

TEST(OpenApi, CoversEveryRouteAndNothingElse) {
  const json document = Document();
  EXPECT_EQ(document["openapi"], "3.1.0");
  size_t operations = 0;
  for (const auto& [path, methods] : document["paths"].items()) operations += methods.size();
  EXPECT_EQ(operations, Routes().size());
  std::set<std::string> names;
  for (const Route& route : Routes()) {
    const json& operation = document["paths"].at(std::string(route.path)).at(Verbatim(route.method));
    EXPECT_EQ(operation["operationId"], route.name);
    EXPECT_TRUE(names.insert(std::string(route.name)).second) << route.name;
    EXPECT_EQ(operation.contains("requestBody"), !route.body.empty());
    EXPECT_EQ(operation.contains("security"), !route.permission) << route.path;
    const size_t parameters = route.query.size() + static_cast<size_t>(std::ranges::count(route.path, '{'));
    EXPECT_EQ(operation.contains("parameters") ? operation["parameters"].size() : 0, parameters)
        << route.path;
  }
}

TEST(OpenApi, EveryReferenceLeadsSomewhere) {
  const json document = Document();
  std::function<void(const json&)> visit = [&](const json& value) {
    if (value.is_object() && value.contains("$ref")) {
      const std::string pointer = value["$ref"].get<std::string>().substr(1);
      EXPECT_TRUE(document.contains(json::json_pointer(pointer))) << pointer;
    }
    if (value.is_structured()) {
      for (const auto& [name, member] : value.items()) visit(member);
    }
  };
  visit(document);
}

TEST(Routes, EachIsFoundByItsPathAndNoneByAnother) {
  for (const Route& route : Routes()) {
    std::string path(route.path);
    for (size_t open = path.find('{'); open != std::string::npos; open = path.find('{'))
      path.replace(open, path.find('}') - open + 1, "Ab3dE6gH9k");
    const auto match = FindRoute(route.method, path);
    ASSERT_NE(match.route, nullptr) << path;
    EXPECT_EQ(match.route->name, route.name);
    EXPECT_EQ(FindRoute(route.method, path + "/").route, nullptr) << path;
    EXPECT_EQ(FindRoute(Verb::put, path).route, nullptr);
    EXPECT_NE(FindRoute(Verb::put, path).allow, "");
  }
  EXPECT_EQ(FindRoute(Verb::get, "/admin/v1/keys/a%2Fb").items, std::vector<std::string>{"a/b"});
  EXPECT_EQ(FindRoute(Verb::delete_, "/admin/v1/models/a%2Fb/adapters/c%3Ad").items,
            (std::vector<std::string>{"a/b", "c:d"}));
  EXPECT_EQ(FindRoute(Verb::delete_, "/admin/v1/models/a/adapters/").route, nullptr);
  EXPECT_EQ(FindRoute(Verb::put, "/admin/v1/models/a/adapters").allow, "GET, HEAD, POST");
  for (const char* path :
       {"/", "/admin/v1/keys/", "/admin/v1/keys/a/b", "/admin/v1/keys/:rotate", "/LIVEZ"}) {
    EXPECT_EQ(FindRoute(Verb::get, path).route, nullptr) << path;
    EXPECT_EQ(FindRoute(Verb::post, path).route, nullptr) << path;
  }
}

TEST(OpenApi, AnswersMatchTheirSchemas) {
  tests::World world;
  world.Serve("demo/search", "chat-small", 3, 4);
  const std::string id = world.AppKey().substr(3, 10);
  world.reloads.last_ok = false;
  world.operations.traffic = [] {
    using gateway::RecentTraffic;
    return std::vector<RecentTraffic::Row>{
        {.model = "chat-small", .seconds = 60, .requests = 1, .first_token = RecentTraffic::Quantiles{}}};
  };
  world.operations.scaling_history = [](const std::string& model) {
    gateway::control::ScalingHistory history;
    history.file = "p.yaml";
    history.policy.model = model;
    history.steps.push_back({.at = gateway::net::Now() - std::chrono::seconds(2), .seconds = 2});
    history.steps.push_back({.at = gateway::net::Now(), .seconds = 2});
    return std::optional(std::move(history));
  };
  tests::TempDir folder;
  tests::ScriptedLauncher launcher;
  launcher.logs = folder.path() + "/";
  tests::MemoryStore store;
  tests::JobsWorld jobs(store, launcher, gateway::net::Now());
  constexpr std::string_view kJob = "name: one\ncommand: [x]\ndevices: [{kind: h100}]\n";
  for (int i = 0; i < 3; ++i) (void)jobs.Submit(std::string(kJob));
  jobs.Settle();
  ASSERT_TRUE(jobs.Ask(jobs.jobs->Suspend("one-3", "ada")).ok());
  jobs.Settle();
  std::ofstream(folder / "j-one-1-1-0") << "step 1\n";
  world.operations.jobs = [&] { return jobs.jobs.get(); };
  world.operations.planner = [&] { return &jobs.planner(); };
  gateway::control::Cordons cordons(world.loop, store, jobs.context);
  ASSERT_TRUE(world.Await(cordons.Start()).ok());
  world.operations.cordons = [&] { return &cordons; };
  gateway::control::ModelOrders orders(
      world.loop, store, world.shared.switches,
      gateway::control::ModelOrders::Environment{
          .record = [](gateway::ledger::Event) -> Task<absl::Status> { co_return absl::OkStatus(); }});
  ASSERT_TRUE(world.Await(orders.Start()).ok());
  world.operations.model_orders = &orders;
  const auto record = [](gateway::ledger::Event) -> Task<absl::Status> { co_return absl::OkStatus(); };
  gateway::control::Adapters adapters(world.loop, store,
                                      {.record = record, .runtime = world.operations.runtime});
  ASSERT_TRUE(world.Await(adapters.Start()).ok());
  gateway::control::AdapterLoads loads(world.loop, adapters, {.runtime = world.operations.runtime});
  loads.Start();
  world.operations.adapters = &adapters;
  world.operations.adapter_loads = &loads;
  gateway::control::Status scaling;
  scaling.models.emplace_back().model = "chat-small";
  world.operations.scaling = [&] { return scaling; };
  gateway::admin::Simulations simulations;
  world.operations.simulations = &simulations;
  const std::map<std::string_view, std::string> job_of = {{"suspendJob", "one-2"}, {"resumeJob", "one-3"}};
  const auto ask = [&](const std::string& by) {
    return world
        .Await(world.grants->Ask({.id = {},
                                  .tenant = "demo",
                                  .wants = {.limits = R"({"requests_per_minute":700})"},
                                  .until = gateway::net::Now() + std::chrono::hours(1),
                                  .asked_by = by,
                                  .asked = gateway::net::Now(),
                                  .expires = gateway::net::Now() + std::chrono::hours(1)},
                                 nullptr))
        ->id;
  };
  const auto given = world.Await(world.grants->Give({.id = {},
                                                     .tenant = "demo",
                                                     .gives = {.weight = 2},
                                                     .from = gateway::net::Now(),
                                                     .until = gateway::net::Now() + std::chrono::hours(1),
                                                     .approved_by = "ada"}));
  ASSERT_TRUE(given.ok()) << given.status();
  const std::map<std::string_view, std::string> item_of = {{"changeTenant", "demo%2Fone"},
                                                           {"disableTenant", "demo%2Fone"},
                                                           {"enableTenant", "demo%2Fone"},
                                                           {"removeTenant", "demo%2Fone"},
                                                           {"changeGrant", given->id},
                                                           {"endGrant", given->id},
                                                           {"commentOnRequest", ask("person:eve")},
                                                           {"approveRequest", ask("person:eve")},
                                                           {"declineRequest", ask("person:eve")},
                                                           {"withdrawRequest", ask("bootstrap")}};
  const std::map<std::string_view, std::string> body_of = {
      {"createTenant", R"({"parent":"demo","name":"one"})"},
      {"changeTenant", R"({"limits":{"requests_per_minute":5}})"},
      {"setMember", R"({"tenant":"search","who":"ada@example.com","role":"member"})"},
      {"removeMember", R"({"tenant":"search","who":"ada@example.com"})"},
      {"giveGrant", R"({"tenant":"search","models":["chat-large"],"until":"1d"})"},
      {"askForGrant",
       R"({"tenant":"demo","limits":{"requests_per_minute":800},"until":"1d","reason":"a demo"})"},
      {"startSimulation",
       json{{"scaling", "model: chat-small\nreplicas: {max: 2}\nscaling: {policy: demand}\n"}}.dump()},
      {"loadAdapter", R"({"name":"sql","source":"/adapters/sql"})"},
      {"changeGrant", R"({"until":"2h"})"},
      {"commentOnRequest", R"({"text":"what for?"})"},
      {"declineRequest", R"({"answer":"no"})"}};
  const json document = Document();
  tests::WithAdmin(world, [&](tests::AdminClient& client) -> Task<void> {
    for (const Route& route : Routes()) {
      if (route.schema == nullptr) continue;
      // What takes a code or a browser: people_test.cc.
      if (route.path.starts_with("/admin/v1/terminal-sign-ins/") || route.name == "redeemLinkForTerminal")
        continue;
      std::string path(route.path);
      if (const size_t open = path.find('{'); open != std::string::npos) {
        const bool is_job = path.find("/jobs/") != std::string::npos;
        const bool is_node = path.find("/nodes/") != std::string::npos;
        const bool is_model = path.find("/models/") != std::string::npos;
        const bool is_simulation = path.find("/simulations/") != std::string::npos;
        const auto job = job_of.find(route.name);
        const auto item = item_of.find(route.name);
        path.replace(open, path.find('}') - open + 1,
                     item != item_of.end() ? item->second
                     : is_node             ? "local"
                     : is_model            ? "chat-small"
                     : is_simulation       ? "sim-1"
                     : !is_job             ? id
                     : job == job_of.end() ? "one-1"
                                           : job->second);
      }
      if (const size_t second = path.find("{name}"); second != std::string::npos)
        path.replace(second, 6, "sql");
      const bool names_tenant = route.name == "createKey" || route.name == "eraseContent";
      const auto known_body = body_of.find(route.name);
      const std::string body = known_body != body_of.end() ? known_body->second
                               : names_tenant              ? R"({"tenant":"search"})"
                               : route.name == "submitJob" ? json{{"job", kJob}}.dump()
                                                           : "";
      const bool ends = route.name == "endOwnSession" || route.name == "endSession";
      const tests::SignedIn session =
          co_await client.SignIn({.id = "person:ada", .roles = {{Role::kViewer, {}}}});
      if (route.name == "proveRecord") continue;     // records_test.cc: it needs a checkpoint
      if (route.name == "showRoute") continue;       // grants_test.cc: it needs a routing log
      if (route.name == "showEvaluation") continue;  // feedback.test.mjs: it needs a batch that ran
      if (route.name == "compareJobs") path += "?jobs=one-1,one-2";
      // rollouts_test.cc: they need a rollout.
      if (route.path.starts_with("/admin/v1/rollouts/")) continue;
      if (route.name == "showStatement") path = "/admin/v1/statements/2026-01?tenant=search";
      if (route.name == "endSession")
        path = "/admin/v1/sessions/" + gateway::StoredName(session.secret).substr(0, 12) + ":end";
      const std::string method = route.method == Verb::get    ? "GET"
                                 : route.method == Verb::post ? "POST"
                                                              : "DELETE";
      const tests::Reply reply =
          ends ? co_await client.CallAs(session, method, path, body)
               : co_await client.Call(method, path, std::string(tests::kBootstrapKey), body);
      EXPECT_THAT(route.statuses, testing::Contains(reply.status)) << path << ": " << reply.text;
      std::vector<std::string> wrong;
      conf::JsonSchemas schemas;
      Fits(document, route.schema(schemas), reply.body, std::string(route.name), wrong);
      EXPECT_THAT(wrong, testing::IsEmpty());
    }
    const tests::Reply refused =
        co_await client.Call("POST", "/admin/v1/keys", std::string(tests::kBootstrapKey), "{}");
    std::vector<std::string> wrong;
    Fits(document, {{"$ref", "#/components/schemas/Error"}}, refused.body, "error", wrong);
    EXPECT_THAT(wrong, testing::IsEmpty()) << refused.text;
  });
  loads.Stop();
  adapters.Stop();
}

}  // namespace
