// The process dies at any point, or is stopped: the ledger has every request and its use.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>

#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "tests/fault/gateway/hammer.h"
#include "tests/support/engine_process.h"
#include "tests/support/gateway_process.h"

namespace tests {
namespace {

using gateway::ledger::Kind;
using gateway::ledger::Record;

EngineProcess QuickEngine() {
  return EngineProcess(
      {"--preset", "demo", "--load-time", "0s", "--step-base", "1ms", "--step-per-sequence", "0s"});
}

// Reconciles what clients were told, what the engine received and what is written.
void ExpectSound(const GatewayProcess& gateway, const EngineProcess& engine,
                 const std::map<std::string, Seen>& seen) {
  const gateway::ledger::VerifyReport report = gateway.Verify();
  ASSERT_TRUE(report.ok()) << report.first_bad->segment << ":" << report.first_bad->line << " "
                           << report.first_bad->why;
  const std::vector<Record> records = gateway.Records();
  const tests::Unbalanced unbalanced = tests::Balance(records);
  EXPECT_THAT(unbalanced.open, testing::IsEmpty());
  EXPECT_THAT(unbalanced.twice, testing::IsEmpty());
  EXPECT_THAT(unbalanced.orphans, testing::IsEmpty());
  std::map<std::string, const Record*> closes;
  uint64_t opens = 0;
  for (const Record& record : records) {
    opens += record.kind == Kind::kOpen;
    if (record.kind == Kind::kClose) closes[record.request] = &record;
  }
  EXPECT_GE(opens, engine.Stat("/requests/received"))
      << "an engine worked for a request that is not recorded";
  for (const auto& [id, close] : closes) {
    EXPECT_EQ(close->cost_micro_usd, close->input + 2 * close->output) << id << " " << close->reason;
  }
  for (const auto& [id, tokens] : seen) {
    const auto close = closes.find(id);
    ASSERT_NE(close, closes.end()) << id << " was answered whole and is not in the ledger";
    EXPECT_THAT(close->second->reason, testing::AnyOf("done", "length", "interrupted")) << id;
    EXPECT_EQ(close->second->input, tokens.prompt_tokens) << id << " " << close->second->reason;
    EXPECT_EQ(close->second->output, tokens.completion_tokens) << id << " " << close->second->reason;
  }
}

TEST(Crash, KilledAtRandomPointsUnderLoadFiftyTimesLosesNothing) {
  const EngineProcess engine = QuickEngine();
  GatewayProcess gateway({.replicas = {engine.port()}, .ledger = "checkpoint: {records: 200, interval: 1s}"});
  std::map<std::string, Seen> seen;
  scheduler::Rng rng(7);
  for (uint64_t round = 0; round < 50 && !testing::Test::HasFailure(); ++round) {
    SCOPED_TRACE(fmt::format("round {}", round));
    Hammer hammer(gateway.port(), {.clients = 4, .seed = round, .leave_percent = 10});
    tests::Pause(milliseconds(static_cast<int64_t>(100 + rng.Uniform(500))));
    gateway.Kill();
    hammer.Stop();
    seen.insert(hammer.whole().begin(), hammer.whole().end());
    gateway.Start();
    ExpectSound(gateway, engine, seen);
  }
  EXPECT_GT(seen.size(), 500u);
  RecordProperty("answers", static_cast<int>(seen.size()));
}

TEST(Crash, WithStrictDurabilityNothingIsForwardedThatIsNotOnDisk) {
  const EngineProcess engine = QuickEngine();
  GatewayProcess gateway({.replicas = {engine.port()}, .ledger = "durability: strict"});
  std::map<std::string, Seen> seen;
  for (uint64_t round = 0; round < 4; ++round) {
    SCOPED_TRACE(fmt::format("round {}", round));
    Hammer hammer(gateway.port(), {.clients = 4, .seed = 100 + round});
    tests::Pause(milliseconds(300));
    gateway.Kill();
    hammer.Stop();
    seen.insert(hammer.whole().begin(), hammer.whole().end());
    gateway.Start();
    ExpectSound(gateway, engine, seen);
  }
}

TEST(Crash, AskedToGoUnderLoadItFinishesItsStreamsAndFlushesItsLedger) {
  const EngineProcess engine = QuickEngine();
  GatewayProcess gateway({.replicas = {engine.port()}, .server = "shutdown_grace: 10s"});
  Hammer hammer(gateway.port(), {.clients = 6, .seed = 5, .leave_percent = 0});
  tests::Pause(milliseconds(500));
  RawClient streaming = gateway.Connect();
  ASSERT_TRUE(streaming.Send(Chat({{"stream", true}, {"max_tokens", 300}, {"ignore_eos", true}})));
  ASSERT_EQ(streaming.ReadHead().status, 200);
  gateway.process().Signal(SIGTERM);
  std::string last;
  while (auto event = streaming.ReadEvent()) last = *std::move(event);
  EXPECT_EQ(last, "data: [DONE]");
  EXPECT_TRUE(streaming.ended());
  const std::optional<int> status = gateway.process().Wait(milliseconds(12'000));
  hammer.Stop();
  ASSERT_TRUE(status) << "it did not end";
  EXPECT_TRUE(WIFEXITED(*status) && WEXITSTATUS(*status) == 0) << *status;
  EXPECT_EQ(hammer.statuses().count(502), 0u);
  ExpectSound(gateway, engine, hammer.whole());
  const std::vector<Record> records = gateway.Records();
  for (const Record& record : records) EXPECT_NE(record.reason, "interrupted");
  EXPECT_TRUE(
      std::any_of(records.begin(), records.end(), [](const Record& r) { return r.kind == Kind::kStop; }));
}

TEST(Crash, AStreamThatOutlastsTheGraceIsEndedAndCounted) {
  EngineProcess engine({"--preset", "demo", "--load-time", "0s", "--step-base", "20ms"});
  engine.Fault({{"kind", "endless"}});
  GatewayProcess gateway({.replicas = {engine.port()}, .server = "shutdown_grace: 500ms"});
  RawClient client = gateway.Connect();
  ASSERT_TRUE(client.Send(Chat({{"stream", true}, {"max_tokens", 10}}, "X-Request-Id: endless\r\n")));
  ASSERT_EQ(client.ReadHead().status, 200);
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(client.ReadEvent());
  const std::optional<int> status = gateway.Stop(milliseconds(5000));
  ASSERT_TRUE(status) << "it waits for a stream that never ends";
  EXPECT_TRUE(WIFEXITED(*status) && WEXITSTATUS(*status) == 0) << *status;
  std::string rest;
  while (auto event = client.ReadEvent()) rest += *event;
  EXPECT_EQ(rest.find("[DONE]"), std::string::npos);
  EXPECT_GT(gateway.CloseOf("endless").output, 0);
  EXPECT_TRUE(tests::Balance(gateway.Records()).none());
  EXPECT_TRUE(gateway.Verify().ok());
}

TEST(Crash, OneGatewayAStateFolder) {
  const EngineProcess engine;
  const GatewayProcess gateway({.replicas = {engine.port()}});
  tests::TempDir logs;
  tests::ChildProcess second({TIDEGATE_BINARY, "serve", "--config", gateway.config_path()},
                             logs / "second.log");
  const std::optional<int> status = second.Wait(RawClient::kPatience);
  ASSERT_TRUE(status);
  EXPECT_TRUE(WIFEXITED(*status) && WEXITSTATUS(*status) == 1) << *status;
  EXPECT_NE(second.Output().find("ledger"), std::string::npos) << second.Output();
  EXPECT_EQ(gateway.Ask(Chat()).status, 200);
}

// Its listeners for clients stand by then.
TEST(Crash, AStartThatFailsLateEndsWithAMessage) {
  const tests::TempDir folder;
  std::ofstream(folder / "tidegate.yaml") << fmt::format(
      "server: {{listen: 127.0.0.1:0, admin: \"192.0.2.1:1\", state_dir: {}, threads: 2}}\n"
      "tenants: [{{name: demo, models: [\"*\"]}}]\n"
      "admin: {{insecure: true}}\n"
      "models: [{{name: chat-small, endpoints: [{{url: http://127.0.0.1:1, engine: vllm}}]}}]\n",
      folder / "state");
  tests::ChildProcess gateway({TIDEGATE_BINARY, "serve", "--config", folder / "tidegate.yaml"},
                              folder / "log");
  const std::optional<int> status = gateway.Wait(RawClient::kPatience);
  ASSERT_TRUE(status);
  EXPECT_TRUE(WIFEXITED(*status) && WEXITSTATUS(*status) == 1) << *status;
  EXPECT_NE(gateway.Output().find("192.0.2.1"), std::string::npos) << gateway.Output();
}

}  // namespace
}  // namespace tests
