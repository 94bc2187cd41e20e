// The header that names the version of the gateway: off by default.
#include <gtest/gtest.h>

#include "tests/support/engine_process.h"
#include "tests/support/gateway_process.h"

namespace tests {
namespace {

TEST(VersionHeader, NamesTheVersionInAnswersOfBothListenersOnceItIsOn) {
  const EngineProcess engine;
  const GatewayConfig off{.replicas = {engine.port()}};
  GatewayProcess gateway(off);
  EXPECT_EQ(gateway.Ask(Chat({{"max_tokens", 1}})).header("x-tidegate-version"), "");
  EXPECT_EQ(gateway.AskAdmin(Get("/livez")).header("x-tidegate-version"), "");

  GatewayConfig on = off;
  on.server = "version_header: true";
  gateway.WriteConfig(on);
  gateway.Reload();
  EXPECT_EQ(gateway.Ask(Chat({{"max_tokens", 1}})).header("x-tidegate-version"), TIDEGATE_VERSION);
  EXPECT_EQ(gateway.Ask(Chat({{"model", "none"}})).header("x-tidegate-version"), TIDEGATE_VERSION)
      << "also of a refusal";
  EXPECT_EQ(gateway.AskAdmin(Get("/livez")).header("x-tidegate-version"), TIDEGATE_VERSION);
}

}  // namespace
}  // namespace tests
