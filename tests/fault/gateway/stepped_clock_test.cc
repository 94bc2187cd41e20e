// A gateway while the clock of its machine is set: it keeps its own time, and says so.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

#include "conf/time.h"
#include "gateway/net/clock.h"
#include "tests/support/engine_process.h"
#include "tests/support/gateway_process.h"
#include "tests/support/sanitized.h"

namespace tests {
namespace {

using testing::HasSubstr;

class SteppedClock : public testing::Test {
 protected:
  SteppedClock() {
    Step(0);
    setenv("STEPPED_CLOCK", (folder_ / "step").c_str(), 1);
    setenv("LD_PRELOAD", TIDEGATE_STEPPED_CLOCK, 1);
  }
  ~SteppedClock() override {
    unsetenv("LD_PRELOAD");
    unsetenv("STEPPED_CLOCK");
  }
  void Step(int64_t seconds) const { std::ofstream(folder_ / "step") << seconds << "\n"; }

  const EngineProcess engine_;
  const TempDir folder_;
};

TEST_F(SteppedClock, AllRecordsHaveTheTimeOfTheProcess) {
  if (kSanitized) GTEST_SKIP() << "the sanitizer's library must be the first one that is loaded";
  GatewayProcess gateway({.replicas = {engine_.port()}});
  EXPECT_EQ(gateway.AskAdmin(Get("/readyz")).json()["warnings"].dump(), "[]");
  for (const int64_t days : {400, -400}) {
    Step(days * 86'400);
    ASSERT_EQ(gateway.Ask(Chat()).status, 200);
    gateway.Reload();
    const Json warnings = gateway.AskAdmin(Get("/readyz")).json()["warnings"];
    ASSERT_EQ(warnings.size(), 1u) << days;
    EXPECT_EQ(warnings[0]["part"], "clock");
    EXPECT_THAT(warnings[0]["detail"].get<std::string>(),
                HasSubstr(days > 0 ? " behind the machine's" : " ahead of the machine's"));
    const double offset = gateway.Metric("tidegate_clock_offset_seconds").value_or(0);
    EXPECT_NEAR(offset, static_cast<double>(-days * 86'400), 60);
  }
  ASSERT_TRUE(gateway.Settles());
  ASSERT_EQ(gateway.Stop(), 0);
  for (const gateway::ledger::Record& record : gateway.Records()) {
    EXPECT_LT(std::abs(record.time_us - conf::ToUnixMicros(gateway::net::Now())), 86'400'000'000)
        << record.seq << " " << gateway::ledger::Name(record.kind);
  }
}

}  // namespace
}  // namespace tests
