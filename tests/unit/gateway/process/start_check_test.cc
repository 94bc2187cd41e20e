#include "gateway/process/start_check.h"

#include <gmock/gmock.h>

#include "tests/unit/gateway/config/config_fixture.h"

namespace gateway {
namespace {

using testing::HasSubstr;

// What is found at that place of a configuration with that `scaling`; empty: nothing.
std::string FoundAt(const std::string& pointer, const std::string& scaling) {
  const LoadResult loaded =
      ParseConfig(With({{"models", "[{name: small, endpoints: [{url: http://h:1, engine: vllm}]}]"},
                        {"scaling", scaling}}),
                  "t.yaml", FakeSources());
  for (const conf::Problem& problem : loaded.problems) ADD_FAILURE() << conf::ToString(problem);
  for (const StartFinding& finding : CheckStart(*loaded.config)) {
    if (finding.pointer == pointer) return finding.message;
  }
  return {};
}

TEST(StartCheck, WarnsOfRunsThatCanDoWhatTheGatewayCan) {
  EXPECT_THAT(FoundAt("/scaling/runs", "{runs: {same_user: true}}"),
              HasSubstr("can do everything that the gateway can"));
}

TEST(StartCheck, WarnsOfDevicesThatAnotherGatewayCouldGiveOut) {
  const std::string declared = "cluster: [{kind: gpu, count: 2}]";
  EXPECT_THAT(FoundAt("/scaling/device_locks", "{" + declared + "}"), HasSubstr("claimed nowhere"));
  EXPECT_EQ(FoundAt("/scaling/device_locks", "{" + declared + ", device_locks: /run/lock/all}"), "");
  EXPECT_EQ(FoundAt("/scaling/device_locks", "{runs: {same_user: true}}"), "") << "it gives out none";
}

}  // namespace
}  // namespace gateway
