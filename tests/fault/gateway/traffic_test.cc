// The operator's say in where requests go, and why they went there: tracks, sessions, zones, copies,
// fallbacks, and the routing log with `tidegate route explain`.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "conf/json_parse.h"
#include "tests/support/engine_process.h"
#include "tests/support/gateway_process.h"

namespace tests {
namespace {

using gateway::ledger::Kind;
using gateway::ledger::Record;
using testing::HasSubstr;
using testing::Not;

constexpr const char* kSampled = "routing_log: {sample: 1}\n";

std::string Endpoint(const char* name, const EngineProcess& engine, const std::string& more = "") {
  return fmt::format("{{name: {}, url: http://127.0.0.1:{}, engine: vllm, model: chat-small{}{}}}", name,
                     engine.port(), more.empty() ? "" : ", ", more);
}

// Where a request went.
std::string Home(const GatewayProcess& gateway, const Json& more = Json::object(),
                 std::string_view headers = {}) {
  Json body = {{"max_tokens", 2}};
  body.update(more);
  const Answer answer = gateway.Ask(Chat(body, headers));
  EXPECT_EQ(answer.status, 200) << answer.body;
  return answer.header("x-tidegate-replica");
}

// `tidegate route explain`, and the exit code.
struct Explained {
  int code = -1;
  std::string text;
  Json json() const { return conf::ParseJson(text); }
};
Explained Explain(const GatewayProcess& gateway, const std::vector<std::string>& args) {
  const TempDir folder;
  std::vector<std::string> words = {TIDEGATE_BINARY, "route", "explain", "-c", gateway.config_path()};
  words.insert(words.end(), args.begin(), args.end());
  ChildProcess command(std::move(words), folder / "out");
  const std::optional<int> status = command.Wait(RawClient::kPatience);
  return {status ? WEXITSTATUS(*status) : -1, command.Output()};
}

bool Logged(const GatewayProcess& gateway, double records) {
  return Within(RawClient::kPatience,
                [&] { return gateway.Metric("tidegate_routing_log_records_total").value_or(0) >= records; });
}

std::string RoutingLog(const GatewayProcess& gateway) {
  std::ifstream in(gateway.state_dir() + "/routing.jsonl");
  return (std::stringstream() << in.rdbuf()).str();
}

std::vector<Json> LinesOf(const GatewayProcess& gateway, const char* kind) {
  std::vector<Json> lines;
  std::istringstream in(RoutingLog(gateway));
  for (std::string line; std::getline(in, line);) {
    Json json = Json::parse(line);
    if (json["kind"] == kind) lines.push_back(std::move(json));
  }
  return lines;
}

// --- The routing log ---

TEST(RouteExplain, EachChoiceByCostIsMadeAgainFromTheLog) {
  const EngineProcess engines[3];
  const GatewayProcess gateway({.replicas = {engines[0].port(), engines[1].port(), engines[2].port()},
                                .model = "routing: {policy: cost}",
                                .sections = kSampled});
  std::map<std::string, std::string> homes;  // by request
  for (int i = 0; i < 12; ++i) {
    const std::string opening(static_cast<size_t>(2000 + 100 * (i % 3)), static_cast<char>('a' + i % 3));
    const Answer answer = gateway.Ask(Chat({{"messages", {{{"role", "user"}, {"content", opening}}}},
                                            {"stream", i % 2 == 0},
                                            {"max_tokens", 4}}));
    ASSERT_EQ(answer.status, 200) << answer.body;
    homes[answer.header("x-request-id")] = answer.header("x-tidegate-replica");
  }
  ASSERT_TRUE(Logged(gateway, 12));
  for (const auto& [request, home] : homes) {
    const Explained explained = Explain(gateway, {request, "--json"});
    EXPECT_EQ(explained.code, 0) << explained.text;
    const Json json = explained.json();
    ASSERT_EQ(json["picks"].size(), 1u) << explained.text;
    const Json& pick = json["picks"][0];
    EXPECT_EQ(pick["policy"], "cost");
    EXPECT_EQ(pick["replica"], home);
    EXPECT_EQ(pick["candidates"].size(), 3u);
    EXPECT_EQ(pick["replay"]["agrees"], true);
    EXPECT_EQ(pick["replay"]["replica"], home);
    EXPECT_EQ(json["outcome"]["status"], 200);
    EXPECT_GT(json["outcome"]["first_token_ms"], 0);
  }
  const Explained last = Explain(gateway, {"--last"});
  EXPECT_EQ(last.code, 0);
  EXPECT_THAT(last.text, HasSubstr("COMPUTE"));
  EXPECT_THAT(last.text, HasSubstr("replay: this version makes the same choice"));
  EXPECT_THAT(last.text, HasSubstr("was chosen of 3 replicas: lowest cost in seconds"));
}

TEST(RouteExplain, AChoiceThatNoLawWouldMakeIsReported) {
  const EngineProcess engines[2];
  const GatewayProcess gateway({.replicas = {engines[0].port(), engines[1].port()},
                                .model = "routing: {policy: cost}",
                                .sections = kSampled});
  Home(gateway);
  ASSERT_TRUE(Logged(gateway, 1));
  Json line = Json::parse(RoutingLog(gateway));
  line["picks"][0]["replica"] = line["picks"][0]["replica"] == "r0" ? "r1" : "r0";
  const TempDir folder;
  std::ofstream(folder / "forged.jsonl") << line.dump() << "\n{\"kind\":\"rou";
  const Explained explained = Explain(gateway, {"--last", "--log", folder / "forged.jsonl"});
  EXPECT_EQ(explained.code, 1);
  EXPECT_THAT(explained.text, HasSubstr("replay: DIFFERS"));
  EXPECT_EQ(Explain(gateway, {"req_unknown"}).code, 1);
  EXPECT_EQ(Explain(gateway, {}).code, 2);
  EXPECT_EQ(Explain(gateway, {"req_1", "--last"}).code, 2);
}

TEST(RouteExplain, AModelsOwnWeightsAreThoseThatItsChoicesWentBy) {
  const EngineProcess engines[2];
  const GatewayProcess gateway({.replicas = {engines[0].port(), engines[1].port()},
                                .model = "routing: {policy: cost, cost: {running: 0.3, pressure: 0}}",
                                .sections = kSampled});
  Home(gateway);
  ASSERT_TRUE(Logged(gateway, 1));
  const Json pick = Explain(gateway, {"--last", "--json"}).json()["picks"][0];
  EXPECT_EQ(pick["weights"]["running"], 0.3);
  EXPECT_EQ(pick["weights"]["pressure"], 0);
  EXPECT_EQ(pick["weights"]["decode"], 0.08);
  EXPECT_EQ(pick["replay"]["agrees"], true);
}

TEST(RouteExplain, OtherPoliciesSayWhatTheyWentBy) {
  const EngineProcess engines[2];
  for (const char* policy : {"round-robin", "epp", "consistent-hash", "power-of-two"}) {
    const GatewayProcess gateway({.replicas = {engines[0].port(), engines[1].port()},
                                  .model = fmt::format("routing: {{policy: {}}}", policy),
                                  .sections = kSampled});
    const std::string home = Home(gateway);
    ASSERT_TRUE(Logged(gateway, 1));
    const Json pick = Explain(gateway, {"--last", "--json"}).json()["picks"][0];
    EXPECT_EQ(pick["policy"], policy);
    EXPECT_EQ(pick["replica"], home);
    EXPECT_FALSE(pick["reason"].get<std::string>().empty());
    EXPECT_TRUE(pick["replay"].is_null());
    EXPECT_THAT(Explain(gateway, {"--last"}).text, HasSubstr("was chosen of"));
  }
}

TEST(RoutingLog, HoldsNeitherPromptNorKeyNorSessionNorTenant) {
  const EngineProcess engine;
  const GatewayProcess gateway(
      {.replicas = {engine.port()}, .model = "routing: {policy: cost, sticky: {}}", .sections = kSampled});
  Home(gateway, {{"messages", {{{"role", "user"}, {"content", "a secret of mine"}}}}, {"user", "alice-4711"}},
       "x-team-secret: not-yours-0815\r\n");
  Home(gateway,
       {{"messages", {{{"role", "user"}, {"content", "a secret of mine"}}}}, {"user", "alice-4711"}});
  ASSERT_TRUE(Logged(gateway, 2));
  const std::string log = RoutingLog(gateway);
  for (const char* secret : {"a secret", "alice", "not-yours", "demo"})
    EXPECT_THAT(log, Not(HasSubstr(secret)));
  EXPECT_THAT(log, HasSubstr("\"session\":true"));
}

TEST(RoutingLog, KeepsTheRetriesOfOneRequestTogether) {
  const EngineProcess engines[2];
  engines[0].Fault({{"kind", "500"}});
  const GatewayProcess gateway(
      {.replicas = {engines[0].port(), engines[1].port()},
       .model =
           "routing: {policy: round-robin}, health: {probe: false}, retries: {budget: 1, min_per_minute: "
           "1000}, breaker: {failures: 1000}",
       .sections = kSampled});
  for (int i = 0; i < 4; ++i) EXPECT_EQ(Home(gateway), "r1");
  ASSERT_TRUE(Logged(gateway, 4));
  size_t retried = 0;
  for (const Json& line : LinesOf(gateway, "route")) {
    if (line["picks"].size() < 2) continue;
    ++retried;
    EXPECT_EQ(line["picks"][0]["replica"], "r0");
    EXPECT_EQ(line["picks"][1]["replica"], "r1");
  }
  EXPECT_GT(retried, 0u);
}

TEST(RoutingLog, WithoutSamplesNothingIsWritten) {
  const EngineProcess engine;
  const GatewayProcess gateway({.replicas = {engine.port()}, .sections = "routing_log: {sample: 0}\n"});
  for (int i = 0; i < 5; ++i) Home(gateway);
  ASSERT_TRUE(gateway.Settles());
  EXPECT_EQ(gateway.Metric("tidegate_routing_log_records_total"), 0.0);
  EXPECT_FALSE(std::filesystem::exists(gateway.state_dir() + "/routing.jsonl"));
}

// --- Canaries, sessions, zones ---

struct Two : testing::Test {
  EngineProcess stable;
  EngineProcess canary;

  // Of a model beside chat-small.
  GatewayConfig Config(const std::string& routing, const std::string& more = "") const {
    return {.replicas = {stable.port()},
            .models = fmt::format("  - {{name: split, endpoints: [{}, {}], routing: {{{}}}{}{}}}\n",
                                  Endpoint("old", stable), Endpoint("new", canary, "track: v2"), routing,
                                  more.empty() ? "" : ", ", more),
            .sections = kSampled};
  }
  static std::string Split(const GatewayProcess& gateway, const Json& more = Json::object(),
                           std::string_view headers = {}) {
    Json body = {{"model", "split"}};
    body.update(more);
    return Home(gateway, body, headers);
  }
};

TEST_F(Two, ACanaryGetsItsShareAndItsHeader) {
  const GatewayProcess gateway(
      Config("policy: cost, canaries: [{track: v2, percent: 20, header: x-try, value: v2}]"));
  int got = 0;
  for (int i = 0; i < 200; ++i) got += Split(gateway) == "new";
  EXPECT_GT(got, 15);
  EXPECT_LT(got, 75);
  for (int i = 0; i < 10; ++i) EXPECT_EQ(Split(gateway, Json::object(), "X-Try: v2\r\n"), "new");
  // A session stays on its side.
  std::set<std::string> sides;
  for (int session = 0; session < 40; ++session) {
    const Json user = {{"user", fmt::format("u{}", session)}};
    const std::string side = Split(gateway, user);
    sides.insert(side);
    for (int i = 0; i < 3; ++i) EXPECT_EQ(Split(gateway, user), side) << session;
  }
  EXPECT_EQ(sides.size(), 2u);
  ASSERT_TRUE(Logged(gateway, 370));
  int tracked = 0;
  for (const Json& line : LinesOf(gateway, "route")) {
    const Json& pick = line["picks"][0];
    EXPECT_EQ(pick.value("track", "") == "v2", pick["replica"] == "new");
    tracked += pick.contains("track");
  }
  EXPECT_GE(tracked, got + 10);
}

TEST_F(Two, ACanaryThatIsGoneCostsNobodyAnAnswer) {
  const GatewayProcess gateway(Config("policy: cost, canaries: [{track: v2, percent: 100}]",
                                      "retries: {budget: 1, min_per_minute: 1000}"));
  EXPECT_EQ(Split(gateway), "new");
  canary.Kill();
  for (int i = 0; i < 10; ++i) EXPECT_EQ(Split(gateway), "old");
}

TEST_F(Two, AReloadMovesNewRequestsAtOnce) {
  GatewayProcess gateway(Config("policy: cost, canaries: [{track: v2, percent: 0}]"));
  for (int i = 0; i < 5; ++i) EXPECT_EQ(Split(gateway), "old");
  gateway.WriteConfig(Config("policy: cost, canaries: [{track: v2, percent: 100}]"));
  gateway.Reload();
  for (int i = 0; i < 5; ++i) EXPECT_EQ(Split(gateway), "new");
}

TEST(PolicyChange, ANewPolicyAppliesToTheNextRequest) {
  const EngineProcess engines[2];
  GatewayConfig config{.replicas = {engines[0].port(), engines[1].port()},
                       .model = "routing: {policy: round-robin}",
                       .sections = kSampled};
  GatewayProcess gateway(config);
  std::set<std::string> homes;
  for (int i = 0; i < 4; ++i) homes.insert(Home(gateway, {{"user", "one"}}));
  EXPECT_EQ(homes.size(), 2u);
  ASSERT_TRUE(gateway.Settles());
  config.model = "routing: {policy: consistent-hash}";
  gateway.WriteConfig(config);
  gateway.Reload();
  homes.clear();
  for (int i = 0; i < 4; ++i) {
    homes.insert(Home(gateway, {{"user", "one"}}));
    ASSERT_TRUE(gateway.Settles());
  }
  EXPECT_EQ(homes.size(), 1u);
  ASSERT_TRUE(Logged(gateway, 8));
  std::vector<std::string> policies;
  for (const Json& line : LinesOf(gateway, "route")) policies.push_back(line["picks"][0]["policy"]);
  EXPECT_EQ(policies, (std::vector<std::string>{"round-robin", "round-robin", "round-robin", "round-robin",
                                                "consistent-hash", "consistent-hash", "consistent-hash",
                                                "consistent-hash"}));
}

TEST(Sticky, ASessionKeepsItsReplicaUntilThatIsGone) {
  EngineProcess engines[3];
  const GatewayProcess gateway(
      {.replicas = {engines[0].port(), engines[1].port(), engines[2].port()},
       .model =
           "routing: {policy: round-robin, sticky: {ttl: 1m}}, retries: {budget: 1, min_per_minute: 1000}"});
  struct How {
    Json body;
    std::string header;
  };
  const How kinds[] = {
      {Json::object(), "x-session-id: s1\r\n"}, {{{"prompt_cache_key", "k1"}}, ""}, {{{"user", "u1"}}, ""}};
  std::map<size_t, std::string> homes;
  for (size_t k = 0; k < 3; ++k) {
    homes[k] = Home(gateway, kinds[k].body, kinds[k].header);
    for (int i = 0; i < 5; ++i) {
      EXPECT_EQ(Home(gateway, kinds[k].body, kinds[k].header), homes[k]);
      Home(gateway);  // turns the robin
    }
  }
  const size_t lost = static_cast<size_t>(homes[0][1] - '0');
  engines[lost].Kill();
  const std::string next = Home(gateway, Json::object(), "x-session-id: s1\r\n");
  EXPECT_NE(next, homes[0]);
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(Home(gateway, Json::object(), "x-session-id: s1\r\n"), next) << "it has a new home";
    Home(gateway);
  }
}

TEST(Zones, TheOwnIsUsedWhileSomebodyThereCanBe) {
  EngineProcess near;
  const EngineProcess far;
  for (const char* policy : {"round-robin", "cost"}) {
    const GatewayProcess gateway(
        {.replicas = {near.port()},
         .server = "zone: west",
         .models = fmt::format(
             "  - {{name: split, endpoints: [{}, {}], routing: {{policy: {}}}, retries: {{budget: 1, "
             "min_per_minute: 1000}}}}\n",
             Endpoint("near", near, "zone: west"), Endpoint("far", far, "zone: east"), policy)});
    for (int i = 0; i < 8; ++i) EXPECT_EQ(Home(gateway, {{"model", "split"}}), "near") << policy;
    near.Kill();
    for (int i = 0; i < 4; ++i) EXPECT_EQ(Home(gateway, {{"model", "split"}}), "far") << policy;
    near.Start();
  }
}

// --- Fallbacks ---

struct FallbackCase {
  const char* on;
  const char* fault;  // of the first model's engine; "": it is killed
};
struct Fallbacks : testing::TestWithParam<FallbackCase> {};

// With the condition the other model serves; with every other condition alone, it does not.
TEST_P(Fallbacks, AreUsedOnlyUnderTheirCondition) {
  EngineProcess first;
  const EngineProcess second;
  if (std::string_view(GetParam().fault).empty()) {
    first.Kill();
  } else {
    first.Fault(Json::parse(GetParam().fault));
  }
  const bool hangs = std::string_view(GetParam().on) == "timeout";
  for (const char* on : {"unavailable", "overloaded", "timeout", "context"}) {
    const GatewayProcess gateway(
        {.replicas = {first.port()},
         .model = fmt::format("fallbacks: [{{model: other, on: [{}]}}], health: {{probe: false}}, timeouts: "
                              "{{first_byte: {}}}, retries: {{budget: 1, min_per_minute: 1000}}",
                              on, hangs ? "300ms" : "1m"),
         .models = fmt::format("  - {{name: other, endpoints: [{}]}}\n", Endpoint("o", second))});
    const Answer answer = gateway.Ask(Chat({{"max_tokens", 2}}));
    if (std::string_view(on) == GetParam().on) {
      EXPECT_EQ(answer.status, 200) << on << answer.body;
      EXPECT_EQ(answer.header("x-tidegate-replica"), "o");
    } else {
      EXPECT_GE(answer.status, 400) << on;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Conditions, Fallbacks,
                         testing::Values(FallbackCase{"unavailable", ""},
                                         FallbackCase{"overloaded", R"({"kind":"429","arg":30})"},
                                         FallbackCase{"timeout", R"({"kind":"hang"})"}));

TEST(FallbackOnContext, APromptThatIsTooLongGoesToTheModelForLongOnes) {
  const EngineProcess small({"--preset", "instant", "--max-model-len", "64"});
  const EngineProcess large;
  const GatewayProcess gateway(
      {.replicas = {small.port()},
       .model = "fallbacks: [{model: other, on: [context]}]",
       .models = fmt::format("  - {{name: other, endpoints: [{}]}}\n", Endpoint("o", large))});
  EXPECT_EQ(Home(gateway), "r0");
  EXPECT_EQ(Home(gateway, {{"messages", {{{"role", "user"}, {"content", std::string(4000, 'x') + " y"}}}}}),
            "o");
}

// --- Shadow traffic ---

struct Shadowed : testing::Test {
  EngineProcess real;
  EngineProcess other;

  GatewayConfig Config(const std::string& shadow) const {
    return {.replicas = {real.port()},
            .model = fmt::format("routing: {{policy: cost, shadows: [{{model: next, {}}}]}}", shadow),
            .models = fmt::format("  - {{name: next, price: {{input: 9, output: 9}}, endpoints: [{}]}}\n",
                                  Endpoint("n", other)),
            .sections = kSampled};
  }
  static double Results(const GatewayProcess& gateway, const char* result) {
    return gateway
        .Metric(fmt::format("tidegate_shadow_requests_total{{model=\"chat-small\",result=\"{}\"}}", result))
        .value_or(-1);
  }
  static double Differences(const GatewayProcess& gateway, const char* what) {
    return gateway
        .Metric(fmt::format("tidegate_shadow_differences_total{{model=\"chat-small\",what=\"{}\"}}", what))
        .value_or(-1);
  }
};

TEST_F(Shadowed, CopiesAreComparedAndNobodyPays) {
  const GatewayProcess gateway(Config("percent: 100"));
  for (int i = 0; i < 10; ++i) {
    const Answer answer = gateway.Ask(Chat({{"max_tokens", 5}, {"stream", i % 2 == 0}}));
    ASSERT_EQ(answer.status, 200);
    EXPECT_EQ(answer.header("x-tidegate-replica"), "r0");
  }
  ASSERT_TRUE(Within(RawClient::kPatience, [&] { return Results(gateway, "compared") == 10; }))
      << gateway.AskAdmin(Get("/metrics")).body;
  EXPECT_EQ(other.Stat("/requests/completed"), 10u);
  // Equal engines answer equally, and cost is what ten requests cost.
  for (const char* what : {"status", "finish", "output_tokens", "text"})
    EXPECT_EQ(Differences(gateway, what), 0) << what;
  ASSERT_TRUE(gateway.Settles());
  int closes = 0;
  for (const Record& record : gateway.Records()) {
    if (record.kind != Kind::kClose) continue;
    ++closes;
    EXPECT_EQ(record.replica, "r0");
  }
  EXPECT_EQ(closes, 10);
  EXPECT_EQ(gateway.Metric("tidegate_requests_total{model=\"next\",reason=\"done\"}").value_or(0), 0);
  EXPECT_EQ(gateway.Metric("tidegate_replica_outstanding_requests{model=\"next\",replica=\"n\"}"), 0.0);
  ASSERT_TRUE(Logged(gateway, 20));
  const std::vector<Json> lines = LinesOf(gateway, "shadow");
  ASSERT_EQ(lines.size(), 10u);
  for (const Json& line : lines) {
    EXPECT_EQ(line["to_model"], "next");
    EXPECT_EQ(line["same"]["text"], true) << line;
    EXPECT_GT(line["copy"]["first_token_ms"], 0);
    EXPECT_EQ(line["copy"]["output"], line["answer"]["output"]);
  }
}

TEST_F(Shadowed, NoAnswerWaitsForACopyThatHangs) {
  other.Fault({{"kind", "hang"}});
  GatewayProcess gateway(Config("percent: 100, timeout: 10m"));
  for (int i = 0; i < 6; ++i) {
    const Answer answer = gateway.Ask(Chat({{"max_tokens", 3}, {"stream", i % 2 == 0}}));
    EXPECT_EQ(answer.status, 200);
    EXPECT_TRUE(answer.whole);
  }
  EXPECT_TRUE(Within(RawClient::kPatience, [&] {
    return gateway.Metric("tidegate_shadow_active{model=\"chat-small\"}") == 6.0;
  })) << "all answers came while their copies were still running";
  EXPECT_EQ(gateway.Stop(), 0);
}

TEST_F(Shadowed, AFailedCopyDoesNotAffectTheClient) {
  // Who refuses connections cannot be told otherwise: that comes last.
  const char* faults[] = {R"({"kind":"500"})", R"({"kind":"hang"})", R"({"kind":"drop","arg":1})",
                          R"({"kind":"refuse"})"};
  for (const char* fault : faults) {
    other.ClearFaults();
    other.Fault(Json::parse(fault));
    const GatewayProcess gateway(Config("percent: 100, timeout: 300ms"));
    for (int i = 0; i < 6; ++i) {
      const Answer answer = gateway.Ask(Chat({{"max_tokens", 3}, {"stream", i % 2 == 0}}));
      EXPECT_EQ(answer.status, 200) << fault;
      EXPECT_TRUE(answer.whole) << fault;
    }
    EXPECT_TRUE(Within(RawClient::kPatience, [&] {
      return Results(gateway, "failed") + Results(gateway, "compared") + Results(gateway, "skipped") == 6;
    })) << fault;
    EXPECT_TRUE(Within(RawClient::kPatience, [&] {
      return gateway.Metric("tidegate_shadow_active{model=\"chat-small\"}") == 0.0;
    }));
    EXPECT_TRUE(gateway.Settles());
  }
}

TEST_F(Shadowed, CopiesAreBoundedInNumberAndSize) {
  other.Fault(Json::parse(R"({"kind":"hang"})"));
  GatewayProcess gateway(Config("percent: 100, in_flight: 1, bytes: 1KiB"));
  for (int i = 0; i < 20; ++i) Home(gateway);
  EXPECT_LE(gateway.Metric("tidegate_shadow_active{model=\"chat-small\"}").value_or(99), 2)
      << "of two threads";
  EXPECT_GE(Results(gateway, "skipped"), 18);
  const uint64_t before = other.Stat("/requests/received");
  Home(gateway, {{"messages", {{{"role", "user"}, {"content", std::string(3000, 'x')}}}}});
  EXPECT_EQ(other.Stat("/requests/received"), before);
  // And a stop does not wait for them.
  EXPECT_EQ(gateway.Stop(), 0);
}

TEST_F(Shadowed, AnotherTrackOfTheModelIsCopiedTo) {
  const GatewayProcess gateway(
      {.replicas = {real.port()},
       .models = fmt::format(
           "  - {{name: split, endpoints: [{}, {}], routing: {{policy: cost, shadows: [{{track: v2, percent: "
           "100}}]}}}}\n",
           Endpoint("old", real), Endpoint("new", other, "track: v2")),
       .sections = kSampled});
  for (int i = 0; i < 6; ++i) EXPECT_EQ(Home(gateway, {{"model", "split"}}), "old");
  EXPECT_TRUE(Within(RawClient::kPatience, [&] { return other.Stat("/requests/completed") == 6; }));
}

}  // namespace
}  // namespace tests
