// The cgroups of runs over a folder that has a hierarchy's files: what is written where.
#include "plugins/launchers/run_cgroup.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tests/support/temp_dir.h"

namespace plugins::launchers {
namespace {

constexpr std::string_view kToken = "0123456789abcdef0123456789abcdef";
constexpr std::string_view kRuns = "tidegate-0123456789abcdef";

class RunCgroups : public testing::Test {
 protected:
  // With the files that the kernel makes in each; the root has no type.
  void Make(const std::string& path, const std::string& processes, bool is_root = false) const {
    std::filesystem::create_directories(dir_ / path);
    Put(path + "/cgroup.procs", processes);
    Put(path + "/cgroup.subtree_control", "");
    if (!is_root) Put(path + "/cgroup.type", "domain\n");
  }
  void Put(const std::string& file, const std::string& text) const { std::ofstream(dir_ / file) << text; }
  std::string Get(const std::string& file) const { return tests::ReadFile(dir_ / file); }
  CgroupPlace Place(const std::string& own, bool delegated) const {
    return {.mount = std::string(dir_.path()), .own = own, .delegated = delegated};
  }

  tests::TempDir dir_;
};

TEST_F(RunCgroups, WhereTheGatewayIsInALeafOfItsOwnRunsAreLimitedBesideIt) {
  Make("service", "");
  Make("service/gateway", "4711\n");
  Make("service/" + std::string(kRuns), "");
  const std::string cgroups = OpenCgroups(kToken, Place("/service/gateway", true));
  EXPECT_EQ(cgroups, dir_ / "service/" + std::string(kRuns));
  EXPECT_THAT(Get("service/cgroup.subtree_control"), testing::HasSubstr("memory"));
  EXPECT_THAT(Get("service/" + std::string(kRuns) + "/cgroup.subtree_control"), testing::HasSubstr("memory"));
  EXPECT_EQ(Get("service/gateway/cgroup.subtree_control"), "");

  const std::string run = "service/" + std::string(kRuns) + "/a";
  Make(run, "");
  for (const char* const file : {"/pids.max", "/memory.max", "/memory.oom.group", "/cgroup.kill"})
    Put(run + file, "");
  EXPECT_EQ(MakeRunCgroup(cgroups, "a", {.processes = 100, .memory_mib = 3}), dir_ / run);
  EXPECT_EQ(Get(run + "/pids.max"), "100");
  EXPECT_EQ(Get(run + "/memory.max"), "3145728");
  EXPECT_EQ(Get(run + "/memory.oom.group"), "1");
  EXPECT_THAT(PopulatedCgroups(cgroups), testing::IsEmpty());
  Put(run + "/cgroup.procs", "12\n34\n");
  EXPECT_THAT(PopulatedCgroups(cgroups), testing::ElementsAre("a"));
  EXPECT_THAT(CgroupPids(cgroups + "/a"), testing::ElementsAre(12, 34));
  EXPECT_TRUE(KillCgroup(cgroups + "/a"));
  EXPECT_EQ(Get(run + "/cgroup.kill"), "1");
}

// A controller that is on where processes are leaves its children invalid: no run could enter its cgroup.
TEST_F(RunCgroups, BelowACgroupWithProcessesNoControllerIsTurnedOn) {
  Make("service", "4711\n");
  Make("service/" + std::string(kRuns), "");
  EXPECT_EQ(OpenCgroups(kToken, Place("/service", false)), dir_ / "service/" + std::string(kRuns));
  EXPECT_EQ(Get("service/cgroup.subtree_control"), "");
  EXPECT_EQ(Get("service/" + std::string(kRuns) + "/cgroup.subtree_control"), "");
}

TEST_F(RunCgroups, DoesNotTouchUndelegatedGroups) {
  Make("slice", "");
  Make("slice/session", "4711\n");
  Make("slice/session/" + std::string(kRuns), "");
  EXPECT_EQ(OpenCgroups(kToken, Place("/slice/session", false)),
            dir_ / "slice/session/" + std::string(kRuns));
  EXPECT_EQ(Get("slice/cgroup.subtree_control"), "");
  EXPECT_FALSE(std::filesystem::exists(dir_ / "slice/" + std::string(kRuns)));
}

TEST_F(RunCgroups, TheRootMayHaveProcessesAndLimitsToo) {
  Make(".", "1\n2\n", true);
  Make(std::string(kRuns), "");
  EXPECT_EQ(OpenCgroups(kToken, Place("/", false)), dir_ / std::string(kRuns));
  EXPECT_THAT(Get("cgroup.subtree_control"), testing::HasSubstr("memory"));
}

TEST_F(RunCgroups, WithoutAHierarchyThereAreNone) {
  EXPECT_EQ(OpenCgroups(kToken, {}), "");
  EXPECT_EQ(MakeRunCgroup("", "a", {}), "");
}

}  // namespace
}  // namespace plugins::launchers
