// Isolated: what a tenant sends reveals nothing of another tenant's prompts, and its bad requests take no
// model away from others.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/support/fake_upstream.h"
#include "tests/support/gateway_process.h"
#include "tests/support/run_cli.h"

namespace tests {
namespace {

using gateway::ledger::Record;
using testing::HasSubstr;
using testing::Not;

constexpr const char* kUnprobed = "health: {probe: false}";
constexpr const char* kOther = "  - {name: other, models: [\"*\"]}\n";

std::string NewKey(const GatewayProcess& gateway, const std::string& tenant) {
  const CliResult made = RunCli({"keys", "create", "--tenant", tenant, "-c", gateway.config_path()});
  EXPECT_EQ(made.code, 0) << made.err;
  return fmt::format("Authorization: Bearer {}\r\n", made.out.substr(0, made.out.find('\n')));
}

std::string CachedAnswer() {
  return JsonAnswer(
      R"({"choices":[{"index":0,"message":{"content":"hi"},"finish_reason":"stop"}],"usage":{"prompt_tokens":700,)"
      R"("completion_tokens":1,"prompt_tokens_details":{"cached_tokens":512}}})");
}

std::string CachedStream() {
  return "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"
         "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"hi\"},\"finish_reason\":\"stop\"}]}\n\n"
         "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":700,\"completion_tokens\":1,"
         "\"prompt_tokens_details\":{\"cached_tokens\":512}}}\n\n"
         "data: [DONE]\n\n";
}

// The last call of a caller: the gateway itself asks engines for their health and their load.
FakeUpstream::Request LastCall(const FakeUpstream& engine) {
  const std::vector<FakeUpstream::Request> seen = engine.seen();
  const auto last =
      std::find_if(seen.rbegin(), seen.rend(), [](const auto& one) { return one.head.starts_with("POST "); });
  return last == seen.rend() ? FakeUpstream::Request() : *last;
}

// The salt in the body that the engine got last.
std::string SaltOf(const FakeUpstream& engine) {
  return Json::parse(LastCall(engine).body).value("cache_salt", "");
}

TEST(Isolated, TheCachesOfEnginesThatKnowSaltsAreSaltedByTenant) {
  const FakeUpstream engine(CachedAnswer());
  const GatewayProcess gateway({.replicas = {engine.port()}, .model = kUnprobed, .tenants = kOther});
  const std::string other = NewKey(gateway, "other");
  const auto salt = [&](const Json& more, std::string_view headers) {
    EXPECT_EQ(gateway.Ask(Chat(more, headers)).status, 200);
    return SaltOf(engine);
  };
  const std::string mine = salt({}, "");
  EXPECT_EQ(mine.size(), 32u);
  EXPECT_EQ(salt({}, ""), mine) << "it stays";
  const std::string theirs = salt({}, other);
  EXPECT_NE(theirs, mine);
  // A caller who sends another tenant's salt gets nowhere, and may keep its own prompts apart.
  EXPECT_EQ(salt({{"cache_salt", mine}}, other), theirs + "." + mine);
  EXPECT_EQ(salt({{"cache_salt", nullptr}}, other), theirs);
  EXPECT_EQ(gateway.Ask(Post("/v1/completions", R"({"model":"chat-small","prompt":"a"})")).status, 200);
  EXPECT_EQ(SaltOf(engine), mine);
}

TEST(Isolated, TenantsOfOneGroupShareTheirPrompts) {
  const FakeUpstream engine(CachedAnswer());
  const GatewayProcess gateway({.replicas = {engine.port()},
                                .tenant = "share_prefixes: [campus]",
                                .model = kUnprobed,
                                .tenants = "  - {name: other, models: [\"*\"], share_prefixes: campus}\n"
                                           "  - {name: below, parent: other}\n"
                                           "  - {name: alone, models: [\"*\"]}\n"});
  std::vector<std::string> salts;
  for (const std::string& headers :
       {std::string(), NewKey(gateway, "other"), NewKey(gateway, "other/below"), NewKey(gateway, "alone")}) {
    EXPECT_EQ(gateway.Ask(Chat({}, headers)).status, 200);
    salts.push_back(SaltOf(engine));
  }
  EXPECT_EQ(salts[0], salts[1]);
  EXPECT_EQ(salts[0], salts[2]);
  EXPECT_NE(salts[0], salts[3]);
}

TEST(Isolated, ASingleTenantsRequestsPassUnsalted) {
  const FakeUpstream engine(CachedAnswer());
  const GatewayProcess gateway({.replicas = {engine.port()}, .model = kUnprobed});
  const Answer answer = gateway.Ask(Chat());
  EXPECT_THAT(LastCall(engine).body, Not(HasSubstr("cache_salt")));
  EXPECT_THAT(answer.body, HasSubstr("\"cached_tokens\":512")) << "it is nobody else's prompt";
}

TEST(Isolated, WhatACacheHeldIsHiddenWhereItMayBeAnotherTenants) {
  FakeUpstream engine(CachedAnswer());
  for (const char* kind : {"engine: sglang", "engine: vllm"}) {
    const GatewayProcess gateway(
        {.replicas = {engine.port()}, .model = kUnprobed, .endpoint = kind, .tenants = kOther});
    const bool hides = std::string(kind) == "engine: sglang";
    engine.Say(CachedAnswer());
    const Answer whole = gateway.Ask(Chat());
    EXPECT_EQ(whole.json()["usage"]["prompt_tokens_details"]["cached_tokens"], hides ? 0 : 512);
    EXPECT_EQ(gateway.CloseOf(whole.header("x-request-id")).cached, 512) << "the ledger knows it";
    engine.Say(CachedStream());
    const Answer stream =
        gateway.Ask(Chat({{"stream", true}, {"stream_options", {{"include_usage", true}}}}));
    EXPECT_THAT(stream.body, HasSubstr(hides ? "\"cached_tokens\":0  }" : "\"cached_tokens\":512"));
    EXPECT_EQ(gateway.CloseOf(stream.header("x-request-id")).cached, 512);
  }
}

// What each engine's answers tell of its cache under /v1/messages, whole and streamed, and in the engine's
// words.
TEST(Isolated, NoAnswerTellsInItsSumsWhatACacheHeld) {
  constexpr const char* kUsage =
      R"("usage":{"input_tokens":5,"cache_creation_input_tokens":40,"cache_read_input_tokens":512,"output_tokens":7})";
  constexpr const char* kTimings =
      R"("timings":{"cache_n":512,"prompt_n":5,"prompt_ms":3.25,"predicted_n":7})";
  const std::string whole = JsonAnswer(fmt::format(
      R"({{"id":"m","type":"message","role":"assistant","content":[{{"type":"text","text":"hi"}}],)"
      R"("stop_reason":"end_turn",{},{}}})",
      kUsage, kTimings));
  const std::string stream = fmt::format(
      "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"
      "event: message_start\ndata: {{\"type\":\"message_start\",\"message\":{{\"id\":\"m\",{}}}}}\n\n"
      "event: content_block_delta\ndata: {{\"type\":\"content_block_delta\",\"index\":0,\"delta\":{{"
      "\"type\":\"text_delta\",\"text\":\"hi\"}}}}\n\n"
      "event: message_delta\ndata: "
      "{{\"type\":\"message_delta\",\"delta\":{{\"stop_reason\":\"end_turn\"}},{},{}}}\n\n"
      "event: message_stop\ndata: {{\"type\":\"message_stop\"}}\n\n",
      kUsage, kUsage, kTimings);
  FakeUpstream engine(whole);
  for (const char* kind : {"engine: llamacpp, apis: [messages, chat]", "engine: anthropic", "engine: vllm",
                           "engine: sglang, apis: [messages, chat]"}) {
    for (const bool shares : {false, true}) {
      SCOPED_TRACE(fmt::format("{} {}", kind, shares));
      const GatewayProcess gateway(
          {.replicas = {engine.port()},
           .tenant = shares ? "share_prefixes: [all]" : "",
           .model = kUnprobed,
           .endpoint = kind,
           .tenants = shares ? "  - {name: other, models: [\"*\"], share_prefixes: [all]}\n" : kOther});
      for (const bool streams : {false, true}) {
        engine.Say(streams ? stream : whole);
        const Answer answer =
            gateway.Ask(Post("/v1/messages", Json{{"model", "chat-small"},
                                                  {"max_tokens", 9},
                                                  {"stream", streams},
                                                  {"messages", {{{"role", "user"}, {"content", "hi"}}}}}
                                                 .dump()));
        ASSERT_EQ(answer.status, 200) << answer.body;
        const Record record = gateway.CloseOf(answer.header("request-id"));
        EXPECT_EQ(record.cached, 512) << "the ledger knows it";
        EXPECT_EQ(record.input, 557);
        if (shares) {
          EXPECT_THAT(answer.body, HasSubstr("512"));
          continue;
        }
        EXPECT_THAT(answer.body, HasSubstr("\"input_tokens\":557"));
        EXPECT_THAT(answer.body, Not(HasSubstr("512")));
        EXPECT_THAT(answer.body, Not(HasSubstr("\"input_tokens\":5,")));
        EXPECT_THAT(answer.body, Not(HasSubstr("\"prompt_n\":5")));
      }
    }
  }
}

TEST(Isolated, OneTenantsBadRequestsTakeNoModelAwayFromOthers) {
  FakeUpstream engine(JsonAnswer(R"({"error":{"message":"cannot identify image file"}})", 500));
  const GatewayProcess gateway(
      {.replicas = {engine.port()},
       .model = "health: {probe: false}, retries: {max: 0}, breaker: {failures: 3, open: 1m}",
       .tenants = kOther});
  const std::string other = NewKey(gateway, "other");
  for (int i = 0; i < 30; ++i) EXPECT_EQ(gateway.Ask(Chat()).status, 500);
  engine.Say(CachedAnswer());
  EXPECT_EQ(gateway.Ask(Chat({}, other)).status, 200);
  engine.Say(JsonAnswer(R"({"error":{"message":"broken"}})", 500));
  for (int i = 0; i < 2; ++i) gateway.Ask(Chat());
  for (int i = 0; i < 2; ++i) gateway.Ask(Chat({}, other));
  EXPECT_EQ(gateway.Ask(Chat()).code(), "upstream_unavailable") << "two tenants have seen it fail";
}

TEST(Isolated, TwoTenantsOfOneOrganisationAreOneCaller) {
  FakeUpstream engine(JsonAnswer(R"({"error":{"message":"cannot identify image file"}})", 500));
  const GatewayProcess gateway(
      {.replicas = {engine.port()},
       .model = "health: {probe: false}, retries: {max: 0}, breaker: {failures: 3, open: 1m}",
       .tenants = std::string(kOther) + "  - {name: one, parent: other}\n  - {name: two, parent: other}\n"});
  const std::string one = NewKey(gateway, "other/one");
  const std::string two = NewKey(gateway, "other/two");
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(gateway.Ask(Chat({}, one)).status, 500);
    EXPECT_EQ(gateway.Ask(Chat({}, two)).status, 500);
  }
  engine.Say(CachedAnswer());
  EXPECT_EQ(gateway.Ask(Chat()).status, 200);
}

TEST(Isolated, APauseThatAnEngineAskedOfOneTenantHoldsUpNobodyElse) {
  FakeUpstream engine("HTTP/1.1 429 Too Many Requests\r\nRetry-After: 60\r\nContent-Length: 0\r\n\r\n");
  const GatewayProcess gateway(
      {.replicas = {engine.port()}, .model = "health: {probe: false}, retries: {max: 0}", .tenants = kOther});
  const std::string other = NewKey(gateway, "other");
  EXPECT_EQ(gateway.Ask(Chat()).status, 429);
  engine.Say(CachedAnswer());
  EXPECT_TRUE(Within(RawClient::kPatience, [&] { return gateway.Ask(Chat({}, other)).status == 200; }));
}

TEST(Isolated, AProbeThatFailsTooBlamesTheReplicaForOneTenantsFailures) {
  FakeUpstream engine(JsonAnswer("{}", 500));  // the probe's answer as well
  const GatewayProcess gateway(
      {.replicas = {engine.port()},
       .model = "health: {interval: 100ms, timeout: 100ms, fall: 100}, retries: {max: 0}, "
                "breaker: {failures: 3, open: 1m}",
       .tenants = kOther});
  EXPECT_TRUE(
      Within(RawClient::kPatience, [&] { return gateway.Ask(Chat()).code() == "upstream_unavailable"; }));
}

}  // namespace
}  // namespace tests
