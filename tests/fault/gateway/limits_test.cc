// Limits under load and misfortune: never overshot, never leaked, and told to those whom they refuse.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/fault/gateway/hammer.h"
#include "tests/fault/gateway/limited.h"
#include "tests/support/engine_process.h"
#include "tests/support/gateway_process.h"

namespace tests {
namespace {

using gateway::ledger::Kind;
using gateway::ledger::Record;

constexpr const char* kImpatient =
    "timeouts: {first_byte: 1s, idle: 1s}, health: {probe: false}, breaker: {failures: 1000}, "
    "retries: {budget: 1, min_per_minute: 100000, backoff: 1ms}";

void MisbehaveInEveryWay(const EngineProcess& engine) {
  for (const char* kind : {"500", "429", "drop", "hang", "stall", "bad-chunk", "bad-json", "refuse"}) {
    engine.Fault({{"kind", kind}, {"probability", 0.04}, {"arg", 1}});
  }
}

// With one shard the ledger's order is that of admission and settlement.
TEST(Limits, ConcurrencyIsNeverExceededAndNothingLeaksAfterAnyMixOfFailures) {
  for (const int threads : {1, 2}) {
    SCOPED_TRACE(fmt::format("{} shards", threads));
    constexpr int kLimit = 5;
    EngineProcess engine({"--preset", "demo", "--load-time", "0s", "--step-base", "2ms"});
    EngineProcess other({"--preset", "demo", "--load-time", "0s", "--step-base", "2ms"});
    MisbehaveInEveryWay(engine);
    MisbehaveInEveryWay(other);
    const GatewayProcess gateway({.replicas = {engine.port(), other.port()},
                                  .tenant = fmt::format("limits: {{concurrency: {}}}", kLimit),
                                  .model = kImpatient,
                                  .threads = threads});
    Hammer hammer(gateway.port(), {.clients = 12, .seed = static_cast<uint64_t>(threads)});
    EXPECT_TRUE(hammer.Sends(500, 6));
    hammer.Stop();
    ASSERT_TRUE(gateway.Settles());
    EXPECT_GT(hammer.statuses().at(429), 0u) << "the limit was never reached";
    if (threads == 1) {
      int running = 0;
      int most = 0;
      for (const Record& record : gateway.Records()) {
        if (record.kind == Kind::kOpen) most = std::max(most, ++running);
        if (record.kind == Kind::kClose && record.open_seq > 0) --running;
      }
      EXPECT_EQ(running, 0);
      EXPECT_LE(most, kLimit);
    }
    engine.ClearFaults();
    other.ClearFaults();
    tests::ExpectExactlyThisConcurrency(gateway, {&engine, &other}, kLimit);
  }
}

TEST(Limits, RequestsAMinuteAreExactUnderConcurrentLoad) {
  constexpr int64_t kLimit = 40;
  EngineProcess engine({"--preset", "demo", "--load-time", "0s", "--step-base", "1ms"});
  MisbehaveInEveryWay(engine);
  const GatewayProcess gateway({.replicas = {engine.port()},
                                .tenant = fmt::format("limits: {{requests_per_minute: {}}}", kLimit),
                                .model = kImpatient});
  Hammer hammer(gateway.port(), {.clients = 12, .seed = 3});
  EXPECT_TRUE(tests::Within(tests::RawClient::kPatience, [&] {
    return gateway.Metric(
               R"(tidegate_limit_refused_requests_total{tenant="demo",limit="requests_per_minute",model="any",device_kind="any"})") >
           50;
  })) << "the limit was hardly reached";
  hammer.Stop();
  ASSERT_TRUE(gateway.Settles());
  std::vector<int64_t> opens;
  for (const Record& record : gateway.Records()) {
    if (record.kind == Kind::kOpen) opens.push_back(record.time_us);
  }
  std::sort(opens.begin(), opens.end());
  ASSERT_GE(opens.size(), static_cast<size_t>(kLimit)) << "rejected requests have burnt some of it";
  for (size_t i = kLimit; i < opens.size(); ++i) EXPECT_GE(opens[i] - opens[i - kLimit], 60'000'000);
}

TEST(Limits, TokensAMinuteAreNeverOvershot) {
  tests::NeverMoreTokensThanTheLimit(100);
}

TEST(Limits, TheFirstRequestIsNeverRefusedForWantOfMaxTokens) {
  tests::FirstRequestIsAdmittedWithoutMaxTokens();
}

TEST(Limits, ASmallKeysSecondCallIsAdmittedWithoutMaxTokens) {
  const EngineProcess engine;
  engine.Fault({{"kind", "hang"}, {"first", 1}});
  const GatewayProcess gateway({.replicas = {engine.port()}, .tenant = "limits: {tokens_per_minute: 2000}"});
  RawClient first = gateway.Connect();
  ASSERT_TRUE(first.Send(Chat()));
  ASSERT_TRUE(Within(RawClient::kPatience, [&] { return engine.Stat("/requests/received") == 1; }));
  EXPECT_EQ(gateway.Ask(Chat()).status, 200) << "the first call reserves what is usual, not all";
}

TEST(Limits, RejectedRequestsBurnNothing) {
  tests::RejectedRequestsBurnNothing();
}

TEST(Limits, ARefusalNamesTheLimitAndWhenToComeBack) {
  const EngineProcess engine;
  const struct {
    std::string tenant;
    std::string code;
    std::string limit;
    std::string retry;
    bool comes_back;
  } cases[] = {
      {"limits: {requests_per_minute: 2}", "rate_limit_exceeded", "requests_per_minute", "true", true},
      {"limits: {tokens_per_minute: 60}", "rate_limit_exceeded", "tokens_per_minute", "true", true},
      {"budget: {tokens: 60, period: day}", "insufficient_quota", "budget", "false", false},
      {"budget: {usd: 0.0001, period: month}", "insufficient_quota", "budget", "false", false},
  };
  for (const auto& c : cases) {
    SCOPED_TRACE(c.tenant);
    const GatewayProcess gateway({.replicas = {engine.port()}, .tenant = c.tenant});
    Answer answer;
    for (int i = 0; i < 30; ++i) {
      answer = gateway.Ask(Chat({{"max_tokens", 10}, {"ignore_eos", true}}));
      if (answer.status != 200) break;
    }
    ASSERT_EQ(answer.status, 429);
    EXPECT_EQ(answer.code(), c.code);
    EXPECT_EQ(answer.header("x-should-retry"), c.retry);
    EXPECT_THAT(answer.header("x-tidegate-limit"), testing::HasSubstr(c.limit));
    EXPECT_THAT(answer.header("x-tidegate-limit"), testing::HasSubstr("demo"));
    const Record record = gateway.CloseOf(answer.header("x-request-id"));
    EXPECT_EQ(record.limit, answer.header("x-tidegate-limit"));
    EXPECT_EQ(record.reason, "refused");
    if (!c.comes_back) continue;
    EXPECT_GT(std::atoi(answer.header("retry-after-ms").c_str()), 0);
    EXPECT_LE(std::atoi(answer.header("retry-after").c_str()), 60) << "no longer than the window";
    const std::string what = c.limit.starts_with("requests") ? "requests" : "tokens";
    for (const char* part : {"limit", "remaining", "reset"}) {
      EXPECT_NE(answer.header(fmt::format("x-ratelimit-{}-{}", part, what)), "") << part;
    }
    EXPECT_THAT(answer.header("x-ratelimit-reset-" + what),
                testing::MatchesRegex("[0-9.]+(ms|s|m[0-9.]*s?)"));
  }
}

}  // namespace
}  // namespace tests
