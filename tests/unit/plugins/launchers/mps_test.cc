#include "plugins/launchers/mps.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

#include "tests/support/temp_dir.h"

namespace plugins::launchers {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;

class Mps : public testing::Test {
 protected:
  Mps() { setenv("CUDA_MPS_PIPE_DIRECTORY", pipes_.path().c_str(), 1); }
  ~Mps() override { unsetenv("CUDA_MPS_PIPE_DIRECTORY"); }
  void StartDaemon() const { std::ofstream(pipes_ / "control") << ""; }

  tests::TempDir pipes_;
};

TEST_F(Mps, KeepsARunToItsShare) {
  StartDaemon();
  EXPECT_THAT(*MpsLimits({.kind = "h100", .devices = {3}, .milli = 250, .device_mib = 20'480}),
              ElementsAre(Pair("CUDA_MPS_PIPE_DIRECTORY", pipes_.path()),
                          Pair("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "25"),
                          Pair("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT", "0=20480M")));
  EXPECT_THAT((*MpsLimits({.kind = "h100", .devices = {0}, .milli = 3, .device_mib = 1}))[1].second, "1");
}

TEST_F(Mps, WithoutItsDaemonARunIsRefused) {
  const auto limits = MpsLimits({.kind = "h100", .devices = {0}, .milli = 500, .device_mib = 1024});
  EXPECT_EQ(limits.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(limits.status().message()), HasSubstr("nvidia-cuda-mps-control -d"));
}

TEST_F(Mps, WholeDevicesNeedNone) {
  EXPECT_THAT(*MpsLimits({.kind = "h100", .devices = {0, 1}}), IsEmpty());
  EXPECT_THAT(*MpsLimits({}), IsEmpty());
}

TEST_F(Mps, ARunsOwnEnvironmentMayNotSetItsLimits) {
  EXPECT_TRUE(IsMpsVariable("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"));
  EXPECT_FALSE(IsMpsVariable("CUDA_VISIBLE_DEVICES"));
}

}  // namespace
}  // namespace plugins::launchers
