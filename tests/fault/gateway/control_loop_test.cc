// The control loop answers the admin API, probes and readiness: nothing that waits for a disk or for another
// process holds it up.
#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>

#include "tests/support/engine_process.h"
#include "tests/support/gateway_process.h"
#include "tests/support/silent_peer.h"
#include "tests/support/small_disk.h"

namespace tests {
namespace {

constexpr std::string_view kApplied = "tidegate_config_reloads_total{result=\"applied\"}";
constexpr std::string_view kRefused = "tidegate_config_reloads_total{result=\"refused\"}";

// It answers for as long as `that` lasts, and each time at once.
void AnswersAlways(const GatewayProcess& gateway, milliseconds that) {
  const auto until = std::chrono::steady_clock::now() + that;
  while (std::chrono::steady_clock::now() < until) {
    const auto asked = std::chrono::steady_clock::now();
    EXPECT_EQ(gateway.AskAdmin(Get("/livez")).status, 200);
    ASSERT_LT(std::chrono::steady_clock::now() - asked, milliseconds(1000));
  }
}

TEST(ControlLoop, AKeyLogThatAnotherProcessHoldsDoesNotHoldItUp) {
  const EngineProcess engine;
  const GatewayProcess gateway({.replicas = {engine.port()}});
  const std::string log = gateway.state_dir() + "/keys.jsonl";
  const int fd = open(log.c_str(), O_RDWR | O_CLOEXEC);
  ASSERT_GE(fd, 0);
  ASSERT_EQ(flock(fd, LOCK_EX), 0);
  ASSERT_EQ(futimens(fd, nullptr), 0);  // as after a write: there may be something to read
  AnswersAlways(gateway, milliseconds(2000));
  close(fd);
}

TEST(ControlLoop, AReloadThatTheLedgerCannotRecordDoesNotHoldItUp) {
  const tests::SmallDisk disk;
  if (!disk.mounted()) GTEST_SKIP() << "needs the right to mount a file system";
  const EngineProcess engine;
  GatewayProcess gateway(
      {.replicas = {engine.port()}, .ledger = "min_free_bytes: 1MiB", .state_dir = disk.path() + "/state"});
  disk.Fill();
  gateway.process().Signal(SIGHUP);
  AnswersAlways(gateway, milliseconds(2000));
  disk.Empty();
  EXPECT_TRUE(tests::Within(RawClient::kPatience, [&] {
    return gateway.Metric(kApplied).value_or(0) + gateway.Metric(kRefused).value_or(0) == 1;
  }));
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
