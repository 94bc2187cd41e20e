// How a gateway leaves: load balancers learn of it before the listeners close.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>

#include "tests/support/engine_process.h"
#include "tests/support/gateway_process.h"

namespace tests {
namespace {

bool Leaving(const GatewayProcess& gateway) {
  return Within(RawClient::kPatience, [&] { return gateway.AskAdmin(Get("/readyz")).status == 503; });
}

TEST(Shutdown, AfterSigtermReadyzSays503AndCallsAreServedUntilTheDelayIsOver) {
  const EngineProcess engine;
  GatewayProcess gateway({.replicas = {engine.port()}, .server = "shutdown_delay: 1h"});
  RawClient kept = gateway.Connect();
  ASSERT_EQ(kept.Ask(Chat({{"max_tokens", 1}})).status, 200);
  gateway.process().Signal(SIGTERM);
  ASSERT_TRUE(Leaving(gateway)) << gateway.process().Output();
  EXPECT_EQ(gateway.AskAdmin(Get("/livez")).status, 200);
  EXPECT_EQ(gateway.Metric("tidegate_draining"), 1.0);
  EXPECT_EQ(gateway.Ask(Chat({{"max_tokens", 1}})).status, 200) << "on a new connection";
  EXPECT_EQ(kept.Ask(Chat({{"max_tokens", 1}})).status, 200) << "on a kept one";
  kept.Close();
  EXPECT_EQ(gateway.Stop(), 0) << "a second signal did not cut the delay short";
  EXPECT_EQ(gateway.Records().back().kind, gateway::ledger::Kind::kCheckpoint) << "it drained";
}

TEST(Shutdown, ASignalWhileItDrainsEndsItAtOnce) {
  const EngineProcess engine({"--preset", "demo", "--load-time", "0s", "--step-base", "1h"});
  GatewayProcess gateway({.replicas = {engine.port()}, .server = "shutdown_delay: 0s, shutdown_grace: 1h"});
  RawClient waiting = gateway.Connect();
  waiting.Send(Chat({{"max_tokens", 1}}));
  ASSERT_TRUE(Within(RawClient::kPatience, [&] { return gateway.Metric("tidegate_requests_active") > 0; }));
  gateway.process().Signal(SIGTERM);
  ASSERT_TRUE(Leaving(gateway));
  gateway.process().Signal(SIGTERM);
  const std::optional<int> status = gateway.process().Wait(RawClient::kPatience);
  ASSERT_TRUE(status) << "it waits on";
  EXPECT_TRUE(WIFSIGNALED(*status) && WTERMSIG(*status) == SIGTERM) << *status;
}

TEST(Shutdown, WhenTheDelayIsOverItDrainsAndEnds) {
  const EngineProcess engine;
  GatewayProcess gateway({.replicas = {engine.port()}, .server = "shutdown_delay: 50ms"});
  ASSERT_EQ(gateway.Ask(Chat({{"max_tokens", 1}})).status, 200);
  EXPECT_EQ(gateway.Stop(), 0);
  EXPECT_EQ(gateway.Records().back().kind, gateway::ledger::Kind::kCheckpoint);
}

TEST(Shutdown, ControlCAtATerminalDoesNotWait) {
  const EngineProcess engine;
  GatewayProcess gateway({.replicas = {engine.port()}, .server = "shutdown_delay: 1h"});
  gateway.process().Signal(SIGINT);
  EXPECT_EQ(gateway.process().Wait(RawClient::kPatience), 0);
}

}  // namespace
}  // namespace tests
