// The control loop answers the admin API, probes and readiness: nothing that waits for a disk or for another
// process holds it up.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <fstream>
#include <functional>
#include <future>
#include <string>

#include "gateway/store/sqlite.h"
#include "tests/support/engine_process.h"
#include "tests/support/gateway_process.h"
#include "tests/support/silent_peer.h"
#include "tests/support/small_disk.h"
#include "tests/support/temp_dir.h"

namespace tests {
namespace {

constexpr std::string_view kApplied = "tidegate_config_reloads_total{result=\"applied\"}";
constexpr std::string_view kRefused = "tidegate_config_reloads_total{result=\"refused\"}";

constexpr int kAnswers = 5;

// How many answers it gives until `ended`, at most kAnswers: a loop that waits for the same thing gives one.
int AnswersUntil(const GatewayProcess& gateway, const std::function<bool()>& ended) {
  int answers = 0;
  while (answers < kAnswers && !ended()) answers += gateway.AskAdmin(Get("/livez")).status == 200 ? 1 : 0;
  return answers;
}

TEST(ControlLoop, AStoreThatAnotherProcessLocksHoldsUpNeitherItNorARequest) {
  const EngineProcess engine;
  const TempDir folder;
  const std::string key(40, 'k');
  std::ofstream(folder / "key") << key;
  const GatewayProcess gateway(
      {.replicas = {engine.port()},
       .sections = fmt::format("admin: {{bootstrap_key: \"file:{}\"}}\n", folder / "key")});
  const auto other = gateway::sqlite::Database::Open(gateway.state_dir() + "/state.db",
                                                     gateway::sqlite::Database::Sync::kFull);
  ASSERT_TRUE(other.ok()) << other.status();
  ASSERT_TRUE((*other)->Execute("BEGIN EXCLUSIVE").ok());
  // A change of a key waits for the lock, as long as the store is patient.
  auto change = std::async(std::launch::async, [&] {
    const std::string authorization = "Authorization: Bearer " + key + "\r\n";
    return gateway.AskAdmin(Post("/admin/v1/keys", R"({"tenant": "demo"})", authorization)).status;
  });
  const auto ended = [&] { return change.wait_for(milliseconds(0)) == std::future_status::ready; };
  EXPECT_EQ(AnswersUntil(gateway, ended), kAnswers);
  EXPECT_EQ(gateway.Ask(Chat()).status, 200);
  EXPECT_EQ(change.get(), 503);
}

TEST(ControlLoop, AReloadThatTheLedgerCannotRecordDoesNotHoldItUp) {
  const tests::SmallDisk disk;
  if (!disk.mounted()) GTEST_SKIP() << "needs the right to mount a file system";
  const EngineProcess engine;
  GatewayProcess gateway(
      {.replicas = {engine.port()}, .ledger = "min_free_bytes: 1MiB", .state_dir = disk.path() + "/state"});
  const auto reloads = [&] {
    return gateway.Metric(kApplied).value_or(0) + gateway.Metric(kRefused).value_or(0);
  };
  const auto reloaded = [&, before = reloads()] { return reloads() > before; };
  disk.Fill();
  gateway.process().Signal(SIGHUP);
  EXPECT_TRUE(tests::Within(RawClient::kPatience, reloaded)) << "it answers, and the reload ends";
  disk.Empty();
  EXPECT_TRUE(tests::Within(RawClient::kPatience, [&] { return gateway.Ask(Chat()).status == 200; }));
}

TEST(ControlLoop, ItsEndWaitsForNoProbeAndNoKeySet) {
  const SilentPeer silent;
  GatewayProcess gateway({.replicas = {silent.port()},
                          .model = "health: {probe: true, interval: 10m, timeout: 10m}",
                          .sections = fmt::format(
                              "auth:\n  jwt:\n    - {{issuer: \"https://id.test/\", audience: [tidegate], "
                              "algorithms: [ES256], tenant: {{claim: tenant, values: {{acme: demo}}}}, jwks: "
                              "\"http://127.0.0.1:{}/jwks.json\"}}\n",
                              silent.port()),
                          .anonymous = false});
  ASSERT_TRUE(Within(RawClient::kPatience, [&] { return silent.callers() == 3; }))
      << "the probe, the scrape and the key set are under way";
  EXPECT_EQ(gateway.Stop(milliseconds(5000)), 0);
}

}  // namespace
}  // namespace tests
