#include "gateway/config/shares.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gateway::config {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

scheduler::DeviceAsk Half(const std::string& kind, int32_t memory_mib = 0) {
  scheduler::DeviceAsk ask{.milli = 500, .memory_mib = memory_mib};
  if (!kind.empty()) ask.kinds = {kind};
  return ask;
}

Scaling By(Shares shares, const std::vector<std::string>& kinds = {"h100"}) {
  Scaling scaling;
  scaling.shares = shares;
  for (const std::string& kind : kinds) scaling.nodes.kinds.push_back({.name = kind});
  return scaling;
}

TEST(Shares, AreRefusedUnlessTheOperatorSaysWhatBecomesOfThem) {
  EXPECT_THAT(WhyNotShared(Half("h100"), Scaling()), HasSubstr("nothing enforces"));
  EXPECT_THAT(WhyNotShared(Half("h100"), By(Shares::kAccounted)), IsEmpty());
  EXPECT_THAT(WhyNotShared({.kinds = {"h100"}, .count = 1}, Scaling()), IsEmpty()) << "a whole device";
}

TEST(Shares, UnderMpsNameTheirMemoryAndAreOfNvidiasDevices) {
  EXPECT_THAT(WhyNotShared(Half("h100", 20'480), By(Shares::kMps)), IsEmpty());
  EXPECT_THAT(WhyNotShared(Half("h100"), By(Shares::kMps)), HasSubstr("without memory"));
  EXPECT_THAT(WhyNotShared(Half("mi300x", 20'480), By(Shares::kMps)), HasSubstr("share of mi300x"));
  EXPECT_THAT(WhyNotShared(Half("", 20'480), By(Shares::kMps, {"h100", "ascend-910b"})),
              HasSubstr("share of ascend-910b"));
  EXPECT_THAT(WhyNotShared(Half("h100", 20'480), By(Shares::kMps, {"h100", "ascend-910b"})), IsEmpty());
}

TEST(Shares, OfLaunchersThatGiveWholeDevicesAreRefusedElsewhere) {
  Scaling scaling = By(Shares::kRefused);
  scaling.launcher = LauncherKind::kSlurm;
  EXPECT_THAT(WhyNotShared(Half("h100"), scaling), IsEmpty());
}

}  // namespace
}  // namespace gateway::config
