// Replicas that fail: failures that clients must not notice, and failures that they must be told.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "tests/support/engine_process.h"
#include "tests/support/gateway_process.h"

namespace tests {
namespace {

using gateway::ledger::Record;

// Replicas are judged by their answers alone, in turn, and retries are not scarce.
constexpr const char* kPlain =
    "routing: {policy: round-robin}, health: {probe: false}, retries: {budget: 1, min_per_minute: 1000}, "
    "breaker: {failures: 1000}";

struct Retry : testing::Test {
  EngineProcess bad;
  EngineProcess good;
  std::vector<uint16_t> replicas{bad.port(), good.port()};
};

struct RetryOn : Retry, testing::WithParamInterface<const char*> {};

TEST_P(RetryOn, AFailureOfOneReplicaIsNotTheClients) {
  bad.Fault(Json::parse(GetParam()));
  const bool hangs = std::string_view(GetParam()).find("hang") != std::string_view::npos;
  const GatewayProcess gateway(
      {.replicas = replicas,
       .model = fmt::format("{}, timeouts: {{first_byte: {}}}", kPlain, hangs ? "1s" : "1m")});
  const uint64_t calls = hangs ? 4 : 12;
  for (uint64_t i = 0; i < calls; ++i) {
    // A stream that drops has had its first event, which names the role, and cannot be had elsewhere.
    const bool stream = i % 2 == 0 && std::string_view(GetParam()).find("drop") == std::string_view::npos;
    const Answer answer = gateway.Ask(Chat({{"max_tokens", 2}, {"stream", stream}}));
    EXPECT_EQ(answer.status, 200) << answer.body;
    EXPECT_TRUE(answer.whole);
    EXPECT_EQ(answer.header("x-tidegate-replica"), "r1");
  }
  EXPECT_EQ(good.Stat("/requests/completed"), calls);
  const auto attempts = [&] {
    uint64_t sum = 0;
    for (const Record& record : gateway.Records()) sum += static_cast<uint64_t>(record.attempts);
    return sum;
  };
  EXPECT_TRUE(tests::Within(milliseconds(3000), [&] { return attempts() > calls; }))
      << "the failing replica was never tried: " << attempts() << " attempts";
  EXPECT_TRUE(gateway.Settles());
}

INSTANTIATE_TEST_SUITE_P(Faults, RetryOn,
                         testing::Values(R"({"kind":"500"})", R"({"kind":"503"})",
                                         R"({"kind":"429","arg":1})", R"({"kind":"refuse"})",
                                         R"({"kind":"hang"})", R"({"kind":"drop","arg":0,"api":"chat"})"));

TEST_F(Retry, AReplicaThatIsGoneIsNotTheClientsAffair) {
  const GatewayProcess gateway({.replicas = replicas, .model = kPlain});
  EXPECT_EQ(gateway.Ask(Chat()).status, 200);
  EXPECT_EQ(gateway.Ask(Chat()).status, 200);
  bad.Kill();  // with connections to it kept alive
  for (int i = 0; i < 10; ++i) EXPECT_EQ(gateway.Ask(Chat()).status, 200);
}

TEST_F(Retry, AnEngineThatClosesItsIdleConnectionsIsNotFailing) {
  const GatewayProcess gateway(
      {.replicas = {bad.port()}, .model = "health: {probe: false}, breaker: {failures: 1}"});
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(gateway.Ask(Chat()).status, 200);
    bad.Kill();
    bad.Start();
  }
  EXPECT_EQ(gateway.Ask(Chat()).status, 200);
}

TEST_F(Retry, TheBreakerKeepsRequestsFromAReplicaThatFails) {
  bad.Fault({{"kind", "500"}});
  const GatewayProcess gateway({.replicas = replicas,
                                .model = "routing: {policy: round-robin}, health: {probe: false}, retries: "
                                         "{budget: 1, min_per_minute: 1000}, "
                                         "breaker: {failures: 3, open: 1m}"});
  for (int i = 0; i < 20; ++i) EXPECT_EQ(gateway.Ask(Chat()).status, 200);
  EXPECT_EQ(bad.Stat("/requests/received"), 3u);
}

TEST_F(Retry, TheBreakerLetsAReplicaComeBack) {
  bad.Fault({{"kind", "500"}});
  const GatewayProcess gateway({.replicas = replicas,
                                .model = "routing: {policy: round-robin}, health: {probe: false}, retries: "
                                         "{budget: 1, min_per_minute: 1000}, "
                                         "breaker: {failures: 2, open: 200ms, max_open: 200ms}"});
  for (int i = 0; i < 8; ++i) EXPECT_EQ(gateway.Ask(Chat()).status, 200);
  bad.ClearFaults();
  EXPECT_TRUE(tests::Within(RawClient::kPatience, [&] {
    EXPECT_EQ(gateway.Ask(Chat()).status, 200);
    return bad.Stat("/requests/completed") >= 3;
  }));
}

TEST_F(Retry, AReplicaThatAsksToBeLeftAloneIs) {
  bad.Fault({{"kind", "429"}, {"arg", 2}, {"first", 1}});
  const GatewayProcess gateway({.replicas = replicas, .model = kPlain});
  const auto rests_until = std::chrono::steady_clock::now() + std::chrono::seconds(2);
  for (int i = 0; i < 10; ++i) EXPECT_EQ(gateway.Ask(Chat()).status, 200);
  const uint64_t received = bad.Stat("/requests/received");
  if (std::chrono::steady_clock::now() < rests_until) EXPECT_EQ(received, 1u);
  EXPECT_TRUE(tests::Within(RawClient::kPatience, [&] {
    EXPECT_EQ(gateway.Ask(Chat()).status, 200);
    return bad.Stat("/requests/completed") > 0;
  })) << "it rests, and no longer than it asked";
}

TEST_F(Retry, ACallersOwnErrorsSayNothingOfTheReplica) {
  const GatewayProcess gateway(
      {.replicas = {good.port()}, .model = "health: {probe: false}, breaker: {failures: 2, open: 1m}"});
  for (int i = 0; i < 10; ++i) EXPECT_EQ(gateway.Ask(Chat({{"temperature", "hot"}})).status, 400);
  EXPECT_EQ(good.Stat("/requests/received"), 10u) << "and none was tried twice";
  EXPECT_EQ(gateway.Ask(Chat()).status, 200);
}

TEST_F(Retry, RetriesAreAShareOfTheRequests) {
  // Not so often that the breakers have their say.
  bad.Fault({{"kind", "500"}, {"every", 3}});
  good.Fault({{"kind", "500"}, {"every", 3}});
  const GatewayProcess gateway({.replicas = replicas,
                                .model = "health: {probe: false}, breaker: {failures: 1000}, "
                                         "retries: {max: 2, budget: 0.1, min_per_minute: 5, backoff: 1ms}"});
  int failed = 0;
  for (int i = 0; i < 200; ++i) failed += gateway.Ask(Chat()).status == 500;
  const uint64_t tries = bad.Stat("/requests/received") + good.Stat("/requests/received");
  EXPECT_GT(tries, 210u);
  EXPECT_LE(tries, 200u + 20 + 2 * 5) << "a share of 0.1, and 5 a minute, of which 5 may have been saved";
  EXPECT_GT(failed, 0) << "so the client is told of what was not tried again";
}

TEST_F(Retry, WhenAllReplicasAreDownTheClientIsToldWhenToComeBack) {
  bad.Kill();
  good.Kill();
  const GatewayProcess gateway({.replicas = replicas,
                                .model = "health: {probe: false}, breaker: {failures: 1, open: 30s}, "
                                         "retries: {budget: 1, min_per_minute: 1000}"});
  Answer answer;
  for (int i = 0; i < 3; ++i) answer = gateway.Ask(Chat());
  EXPECT_EQ(answer.status, 503);
  EXPECT_EQ(answer.code(), "upstream_unavailable");
  EXPECT_EQ(answer.header("x-should-retry"), "true");
  const int after = std::atoi(answer.header("retry-after").c_str());
  EXPECT_GT(after, 0);
  EXPECT_LE(after, 30);
  EXPECT_NE(answer.header("retry-after-ms"), "");
  const Record record = gateway.CloseOf(answer.header("x-request-id"));
  EXPECT_EQ(record.reason, "upstream_failed");
  EXPECT_EQ(record.output, 0);
  EXPECT_EQ(record.cost_micro_usd, 0);
}

TEST_F(Retry, AnotherModelStandsIn) {
  const EngineProcess large({"--model", "chat-large"});
  bad.Kill();
  const GatewayProcess gateway(
      {.replicas = {bad.port()},
       .model = fmt::format("{}, fallbacks: [chat-large]", kPlain),
       .models = fmt::format(
           "  - {{name: chat-large, endpoints: [{{name: big, url: http://127.0.0.1:{}, engine: vllm}}]}}\n",
           large.port())});
  for (const bool stream : {false, true}) {
    const Answer answer = gateway.Ask(Chat({{"max_tokens", 2}, {"stream", stream}}));
    EXPECT_EQ(answer.status, 200) << answer.body;
    EXPECT_EQ(answer.header("x-tidegate-replica"), "big");
    const Record record = gateway.CloseOf(answer.header("x-request-id"));
    EXPECT_EQ(record.model, "chat-small");
    EXPECT_EQ(record.served_model, "chat-large");
  }
  EXPECT_EQ(large.Stats()["last_request"]["body"].get<std::string>().find("chat-small"), std::string::npos);
}

TEST_F(Retry, NothingIsTriedAgainOnceTheClientHasBytes) {
  bad.Fault({{"kind", "drop"}, {"arg", 3}});
  good.Fault({{"kind", "drop"}, {"arg", 3}});
  const GatewayProcess gateway({.replicas = replicas, .model = kPlain});
  const Answer answer = gateway.Ask(Chat({{"stream", true}, {"max_tokens", 50}, {"ignore_eos", true}}));
  EXPECT_EQ(answer.status, 200);
  EXPECT_THAT(answer.body, testing::HasSubstr("stream_interrupted"));
  EXPECT_EQ(bad.Stat("/requests/received") + good.Stat("/requests/received"), 1u);
  EXPECT_EQ(gateway.CloseOf(answer.header("x-request-id")).attempts, 1);
}

}  // namespace
}  // namespace tests
