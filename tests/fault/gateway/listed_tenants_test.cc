// How the command line lists tenants, whose limits a gateway gives as JSON.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "tests/support/fake_upstream.h"
#include "tests/support/run_cli.h"
#include "tests/support/temp_dir.h"

namespace tests {
namespace {

TEST(ListedTenants, HaveAllTheirLimitsInWords) {
  const FakeUpstream gateway(JsonAnswer(R"({"object":"list","data":[{"path":"acme","state":"in_force",)"
                                        R"("at_run_time":false,"made_by":null,"weight":1,"limits":{)"
                                        R"("requests_per_minute":60,"per_model":{"large":{"concurrency":4}},)"
                                        R"("budget":[{"usd":100.5,"tokens":2000,"period":"month"},)"
                                        R"({"usd":5.0,"period":"day","model":"large"},)"
                                        R"({"device_hours":40,"period":"week","device":"h100"}]},)"
                                        R"("models":["small"]}],"has_more":false})"));
  const TempDir dir;
  std::ofstream(dir / "key") << "tg-0123456789-abcdefghijklmnopqrstuvwxyz0123456789\n";
  const CliResult listed = RunCli({"tenants", "list", "--key-file", dir / "key", "--gateway",
                                   fmt::format("http://127.0.0.1:{}", gateway.port())});
  EXPECT_EQ(listed.code, 0) << listed.err;
  EXPECT_THAT(listed.out,
              testing::HasSubstr("60 requests/min, 4 at once for large, 2000 tokens/month, 100.5 USD/month, "
                                 "5 USD/day for large, 40 device-hours/week of h100"))
      << listed.out;
}

}  // namespace
}  // namespace tests
