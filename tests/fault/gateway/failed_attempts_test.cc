// Floods of calls without a valid key: they take neither the disk nor the place of those who have one.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/engine_process.h"
#include "tests/support/fake_upstream.h"
#include "tests/support/gateway_process.h"
#include "tests/support/run_cli.h"
#include "tests/support/small_disk.h"
#include "tests/unit/plugins/auth/signer.h"

namespace tests {
namespace {

using gateway::ledger::Kind;
using gateway::ledger::Record;

std::string MakeKey(const GatewayProcess& gateway) {
  const CliResult made = RunCli({"keys", "create", "--tenant", "demo", "--config", gateway.config_path()});
  EXPECT_EQ(made.code, 0) << made.err;
  return made.out.substr(0, made.out.find('\n'));
}

std::string With(const std::string& secret) {
  return "Authorization: Bearer " + secret + "\r\n";
}

std::vector<Record> Refusals(const GatewayProcess& gateway) {
  std::vector<Record> found = gateway.Records();
  std::erase_if(found, [](const Record& record) { return record.kind != Kind::kRefusals; });
  return found;
}

TEST(FailedAttempts, AFloodIsOneRecordAndSlowsDownNobodyWithAKey) {
  const EngineProcess engine;
  GatewayProcess gateway({.replicas = {engine.port()}, .anonymous = false});
  const std::string key = MakeKey(gateway);
  int unauthorized = 0;
  int limited = 0;
  for (int i = 0; i < 200; ++i) {
    const Answer answer = gateway.Ask(i % 2 == 0 ? Chat() : Chat({}, With("tg-nobody")));
    if (answer.status == 401) ++unauthorized;
    if (answer.status != 429) continue;
    ++limited;
    EXPECT_EQ(answer.code(), "too_many_failed_attempts");
    EXPECT_GE(std::stoi(answer.header("retry-after")), 1);
    EXPECT_EQ(answer.header("x-should-retry"), "false");
  }
  EXPECT_EQ(unauthorized + limited, 200);
  EXPECT_GE(unauthorized, 59);  // and one that asked whether it serves
  EXPECT_GT(limited, 0);
  for (int i = 0; i < 20; ++i) EXPECT_EQ(gateway.Ask(Chat({{"max_tokens", 1}}, With(key))).status, 200);
  EXPECT_EQ(gateway.Stop(), 0);
  for (const Record& record : gateway.Records())
    EXPECT_FALSE(record.kind == Kind::kClose && record.tenant.empty()) << record.error;
  const std::vector<Record> refusals = Refusals(gateway);
  ASSERT_FALSE(refusals.empty());
  uint64_t failures = 0;
  uint64_t unknown = 0;
  for (const Record& record : refusals) {
    const Json detail = Json::parse(record.detail);
    failures += detail["failures"].get<uint64_t>();
    EXPECT_EQ(detail["addresses"][0]["address"], "127.0.0.1");
    unknown += detail["addresses"][0]["codes"].value("invalid_api_key", uint64_t{0});
  }
  EXPECT_EQ(failures, 201u);
  EXPECT_GT(unknown, 0u);
  EXPECT_LE(refusals.size(), 2u);
  EXPECT_TRUE(gateway.Verify().ok());
}

// The method and the gateway's own headers are looked at before a credential is.
TEST(FailedAttempts, CallsThatAreRefusedBeforeACredentialIsSeenAreOneRecordToo) {
  const EngineProcess engine;
  const FakeUpstream provider(JsonAnswer("{}", 500));
  GatewayProcess gateway(
      {.replicas = {engine.port()},
       .sections = fmt::format("auth:\n  jwt:\n    - {{issuer: \"https://id.test/\", audience: [tidegate], "
                               "algorithms: [ES256], tenant: {{claim: tenant, values: {{acme: demo}}}}, "
                               "jwks: \"http://127.0.0.1:{}/jwks.json\"}}\n",
                               provider.port()),
       .anonymous = false});
  const std::string token =
      plugins::auth::SignToken(plugins::auth::Signer::For("ES256"), "ES256", R"({"alg":"ES256","kid":"k1"})",
                               R"({"iss":"https://id.test/","aud":"tidegate","sub":"ada","exp":4102444800})");
  for (int i = 0; i < 40; ++i) {
    EXPECT_EQ(gateway.Ask(Get("/v1/chat/completions")).code(), "method_not_allowed");
    EXPECT_EQ(gateway.Ask(Chat({}, "x-tidegate-replica: r0\r\n")).code(), "reserved_header");
    EXPECT_EQ(gateway.Ask(Chat({}, With(token))).code(), "issuer_unavailable");
  }
  EXPECT_EQ(gateway.Stop(), 0);
  for (const Record& record : gateway.Records()) EXPECT_NE(record.kind, Kind::kClose) << record.error;
  uint64_t methods = 0;
  uint64_t headers = 0;
  uint64_t issuers = 0;
  for (const Record& record : Refusals(gateway)) {
    const Json codes = Json::parse(record.detail)["addresses"][0]["codes"];
    methods += codes.value("method_not_allowed", uint64_t{0});
    headers += codes.value("reserved_header", uint64_t{0});
    issuers += codes.value("issuer_unavailable", uint64_t{0});
  }
  EXPECT_EQ(methods, 40u);
  EXPECT_EQ(headers, 40u);
  EXPECT_EQ(issuers, 40u);
}

TEST(FailedAttempts, NoneIsWrittenWhileTheDiskIsLow) {
  const SmallDisk disk(64);
  if (!disk.mounted()) GTEST_SKIP() << "needs the right to mount a file system";
  const EngineProcess engine;
  GatewayProcess gateway({.replicas = {engine.port()},
                          .ledger = "min_free_bytes: 1MiB",
                          .sections = "auth: {failed_per_minute: 0}\n",
                          .anonymous = false,
                          .state_dir = disk.path() + "/state"});
  disk.Fill();
  ASSERT_TRUE(Within(RawClient::kPatience, [&] { return gateway.Metric("tidegate_disk_low") == 1; }));
  const size_t before = gateway.Records().size();
  for (int i = 0; i < 100; ++i) EXPECT_EQ(gateway.Ask(Chat()).status, 401);
  disk.Fill();  // what the gateway has given back meanwhile
  ASSERT_TRUE(Within(RawClient::kPatience, [&] { return gateway.Metric("tidegate_disk_low") == 1; }));
  EXPECT_EQ(gateway.Stop(), 0);
  for (const Record& record : gateway.Records()) EXPECT_NE(record.kind, Kind::kClose);
  // The call that asked whether it serves may have been recorded while the disk still had room.
  for (const Record& record : Refusals(gateway)) EXPECT_EQ(Json::parse(record.detail)["failures"], 1);
  EXPECT_LE(gateway.Records().size(), before + 2) << "its stop";
}

}  // namespace
}  // namespace tests
