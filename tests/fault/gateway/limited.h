// Checks of limits that more than one suite makes.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "tests/support/engine_process.h"
#include "tests/support/gateway_process.h"

namespace tests {

// Nothing is in use: as many requests as the limit says are admitted at once, and one more is refused.
inline void ExpectExactlyThisConcurrency(const GatewayProcess& gateway, std::vector<EngineProcess*> engines,
                                         int limit) {
  const auto hanging = [&] {
    uint64_t n = 0;
    for (EngineProcess* engine : engines) n += engine->Stat("/running") + engine->Stat("/waiting");
    return n;
  };
  for (EngineProcess* engine : engines) engine->Fault({{"kind", "endless"}});
  std::vector<RawClient> clients;
  for (int i = 0; i < limit; ++i) {
    clients.push_back(gateway.Connect());
    ASSERT_TRUE(clients.back().Send(Chat({{"stream", true}, {"max_tokens", 1000}})));
    EXPECT_EQ(clients.back().ReadHead().status, 200) << "request " << i << " of " << limit;
  }
  EXPECT_TRUE(Within(RawClient::kPatience, [&] { return hanging() == static_cast<uint64_t>(limit); }));
  const Answer refused = gateway.Ask(Chat());
  EXPECT_EQ(refused.status, 429);
  EXPECT_EQ(refused.code(), "concurrency_limit");
  clients.clear();
  EXPECT_TRUE(Within(RawClient::kPatience, [&] { return hanging() == 0; }));
  for (EngineProcess* engine : engines) engine->ClearFaults();
  EXPECT_TRUE(
      Within(RawClient::kPatience, [&] { return gateway.Ask(Chat({{"max_tokens", 1}})).status == 200; }));
}

inline int64_t TokensOf(const std::vector<gateway::ledger::Record>& records) {
  int64_t tokens = 0;
  for (const auto& record : records) {
    if (record.kind == gateway::ledger::Kind::kClose) tokens += record.input + record.output;
  }
  return tokens;
}

inline void NeverMoreTokensThanTheLimit(int64_t limit) {
  const EngineProcess engine;
  const GatewayProcess gateway(
      {.replicas = {engine.port()}, .tenant = fmt::format("limits: {{tokens_per_minute: {}}}", limit)});
  std::vector<std::thread> clients;
  for (int i = 0; i < 10; ++i) {
    clients.emplace_back([&] {
      for (int j = 0; j < 8; ++j) gateway.Ask(Chat());
    });
  }
  for (std::thread& client : clients) client.join();
  ASSERT_TRUE(gateway.Settles());
  const int64_t used = TokensOf(gateway.Records());
  EXPECT_GT(used, 0);
  // The length of a prompt is an estimate until the engine has counted it; the output never exceeds what is
  // left.
  EXPECT_LE(used, limit + 5);
  const Json tokens = engine.Stats()["tokens"];
  EXPECT_EQ(tokens["prompt"].get<int64_t>() + tokens["generated"].get<int64_t>(), used)
      << "by the engine's own count";
}

inline void FirstRequestIsAdmittedWithoutMaxTokens() {
  const EngineProcess engine;
  const GatewayProcess gateway(
      {.replicas = {engine.port()},
       .tenant = "limits: {tokens_per_minute: 1000}, budget: {usd: 0.01, period: day}",
       .model = "max_output_tokens: 100000"});
  const Answer answer = gateway.Ask(Chat());
  EXPECT_EQ(answer.status, 200) << answer.body;
  EXPECT_GT(answer.json()["usage"]["completion_tokens"], 0);
}

inline void RejectedRequestsBurnNothing() {
  const EngineProcess engine;
  engine.Fault({{"kind", "hang"}, {"first", 1}});
  const GatewayProcess gateway(
      {.replicas = {engine.port()}, .tenant = "limits: {concurrency: 1, requests_per_minute: 10}"});
  RawClient holder = gateway.Connect();
  ASSERT_TRUE(holder.Send(Chat()));
  ASSERT_TRUE(Within(RawClient::kPatience, [&] { return engine.Stat("/requests/received") == 1; }));
  for (int i = 0; i < 50; ++i) ASSERT_EQ(gateway.Ask(Chat()).code(), "concurrency_limit");
  for (int i = 0; i < 50; ++i) ASSERT_EQ(gateway.Ask(Chat({{"model", "nobody"}})).status, 404);
  holder.Close();
  // The one that was held has used one of ten, and those that were refused none.
  ASSERT_TRUE(Within(RawClient::kPatience, [&] { return gateway.Ask(Chat()).status == 200; }));
  for (int i = 0; i < 8; ++i) EXPECT_EQ(gateway.Ask(Chat()).status, 200) << i;
  EXPECT_EQ(gateway.Ask(Chat()).code(), "rate_limit_exceeded");
}

}  // namespace tests
