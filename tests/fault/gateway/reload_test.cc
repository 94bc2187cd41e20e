// Reloads of a running gateway: a refused one changes nothing, and the ledger has it with its actor.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "conf/hex.h"
#include "plugins/auth/digest.h"
#include "tests/fault/gateway/limited.h"
#include "tests/support/engine_process.h"
#include "tests/support/gateway_process.h"

namespace tests {
namespace {

using gateway::ledger::Kind;
using gateway::ledger::Record;

constexpr std::string_view kReloadAdminKey = "a-bootstrap-key-of-enough-characters";

struct Reload : testing::Test {
  Reload() {
    std::ofstream(folder / "key") << kReloadAdminKey;
    std::ofstream(folder / "secret") << "sk-a-secret-of-the-engine";
    chmod((folder / "key").c_str(), 0600);
    chmod((folder / "secret").c_str(), 0600);
  }
  GatewayConfig Config(std::string_view more = "") const {
    return {.replicas = {engine.port()},
            .endpoint = fmt::format("engine: vllm, api_key: \"file:{}\"", folder / "secret"),
            .sections = fmt::format("admin: {{bootstrap_key: \"file:{}\"}}\n{}", folder / "key", more)};
  }
  static std::vector<Record> Refusals(const GatewayProcess& gateway) {
    std::vector<Record> all;
    for (Record& record : gateway.Records()) {
      if (record.kind == Kind::kConfig && record.action == "refused") all.push_back(std::move(record));
    }
    return all;
  }
  // The one with this number, once it is there.
  static Record Refusal(const GatewayProcess& gateway, size_t number) {
    EXPECT_TRUE(tests::Within(RawClient::kPatience, [&] { return Refusals(gateway).size() >= number; }));
    const std::vector<Record> all = Refusals(gateway);
    EXPECT_EQ(all.size(), number);
    return all.size() == number ? all.back() : Record();
  }
  static std::string HashOf(const std::string& file) {
    return conf::Hex(plugins::auth::Sha256(tests::ReadFile(file)));
  }

  EngineProcess engine;
  tests::TempDir folder;
};

TEST_F(Reload, ARefusedReloadIsInTheLedgerWithItsActorAndTheFile) {
  GatewayProcess gateway(Config());
  gateway.WriteConfig(Config("nonsense: 1\nmore_nonsense: {a: b}\n"));
  gateway.Reload();
  const Record by_signal = Refusal(gateway, 1);
  EXPECT_EQ(by_signal.actor, "SIGHUP");
  EXPECT_EQ(by_signal.subject, gateway.config_path());
  EXPECT_EQ(Json::parse(by_signal.detail),
            (Json{{"problems", 2}, {"file_sha256", HashOf(gateway.config_path())}}));

  GatewayConfig moved = Config();
  moved.threads = 1;  // well-formed, and nothing that a reload can change
  gateway.WriteConfig(moved);
  const Answer refused = gateway.AskAdmin(
      Post("/admin/v1/config:reload", "", fmt::format("Authorization: Bearer {}\r\n", kReloadAdminKey)));
  EXPECT_GE(refused.status, 400);
  EXPECT_LT(refused.status, 500);
  const Record by_admin = Refusal(gateway, 2);
  EXPECT_EQ(by_admin.actor, "bootstrap");
  EXPECT_EQ(Json::parse(by_admin.detail),
            (Json{{"problems", 1}, {"file_sha256", HashOf(gateway.config_path())}}));

  std::filesystem::remove(gateway.config_path());
  gateway.Reload();
  EXPECT_EQ(Json::parse(Refusal(gateway, 3).detail), (Json{{"problems", 1}})) << "there is nothing to hash";

  EXPECT_EQ(gateway.Ask(Chat({{"max_tokens", 1}})).status, 200);
  EXPECT_EQ(gateway.Metric("tidegate_config_reloads_total{result=\"refused\"}"), 3);
  for (const auto& segment : std::filesystem::directory_iterator(gateway.ledger_dir())) {
    if (!segment.is_regular_file()) continue;
    const std::string text = tests::ReadFile(segment.path());
    EXPECT_EQ(text.find("sk-a-secret"), std::string::npos);
    EXPECT_EQ(text.find(kReloadAdminKey), std::string::npos);
  }
  EXPECT_EQ(gateway.Stop(), 0);
  EXPECT_TRUE(gateway.Verify().ok());
}

TEST_F(Reload, ABudgetThatItAddsCountsWhatWasSpentBefore) {
  GatewayProcess gateway(Config());
  ASSERT_EQ(gateway.Ask(Chat({{"max_tokens", 5}})).status, 200);
  ASSERT_TRUE(gateway.Settles());
  const int64_t spent = tests::TokensOf(gateway.Records());
  ASSERT_GT(spent, 0);
  GatewayConfig with = Config();
  with.tenant = fmt::format("budget: {{tokens: {}, period: month}}", spent);
  gateway.WriteConfig(with);
  gateway.Reload();
  const auto used = [&] {
    return gateway.Metric(
        "tidegate_limit_used{tenant=\"demo\",limit=\"token_budget_per_month\",model=\"any\",device_kind="
        "\"any\"}");
  };
  EXPECT_TRUE(tests::Within(RawClient::kPatience, [&] { return used() == static_cast<double>(spent); }))
      << used().value_or(-1) << " of " << spent;
  const Answer refused = gateway.Ask(Chat({{"max_tokens", 1}}));
  EXPECT_EQ(refused.status, 429);
  EXPECT_EQ(refused.code(), "insufficient_quota");
  EXPECT_EQ(gateway.Stop(), 0);
}

// Whether or not Redis answers: of a key made now, each of two gateways has a half from its first request on.
TEST_F(Reload, ANewKeysLimitsAreSharedAsSoonAsTheKeyIsThere) {
  const tests::FreePort nobody;
  const GatewayProcess gateway(Config(fmt::format(
      "redis: {{url: redis://127.0.0.1:{}, gateways: 2, timeout: 100ms, when_unavailable: keep-share}}\n",
      nobody.number())));
  const std::string admin = fmt::format("Authorization: Bearer {}\r\n", kReloadAdminKey);
  for (int i = 0; i < 5; ++i) {
    const Answer made = gateway.AskAdmin(
        Post("/admin/v1/keys", R"({"tenant":"demo","name":"k","limits":{"concurrency":10}})", admin));
    ASSERT_EQ(made.status, 201) << made.body;
    const Answer limits = gateway.AskAdmin(tests::Get("/admin/v1/limits?tenant=demo", admin));
    ASSERT_EQ(limits.status, 200) << limits.body;
    const Json all = Json::parse(limits.body)["data"];
    EXPECT_EQ(all.size(), static_cast<size_t>(i) + 1);
    for (const Json& limit : all) EXPECT_EQ(limit["share"], 5) << limit;
  }
}

}  // namespace
}  // namespace tests
