// Devices of a machine are one process' to give away.
#include "plugins/devices/claims.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>

#include "tests/support/temp_dir.h"

namespace plugins::devices {
namespace {

using testing::HasSubstr;

const std::vector<std::string> kDevices{"GPU-1", "GPU-2"};

class Claims : public testing::Test {
 protected:
  absl::StatusOr<DeviceClaims> Take(const std::vector<std::string>& devices,
                                    std::vector<uid_t> ignored = {}) const {
    return DeviceClaims::Take(folder_, devices, ignored);
  }
  // A process of another user that claims a device until it is killed; 0: it could not.
  pid_t Another(const std::string& device, uid_t uid) const {
    int told[2];
    if (pipe(told) != 0) return 0;
    const pid_t child = fork();
    if (child == 0) {
      if (uid != geteuid() && (setgid(uid) != 0 || setuid(uid) != 0)) _exit(1);
      const auto claims = Take({device});
      if (!claims.ok() || write(told[1], "y", 1) != 1) _exit(2);
      pause();
      _exit(0);
    }
    close(told[1]);
    char word = 0;
    const bool has = read(told[0], &word, 1) == 1;
    close(told[0]);
    if (has) return child;
    waitpid(child, nullptr, 0);
    return 0;
  }
  static void End(pid_t pid) {
    kill(pid, SIGKILL);
    waitpid(pid, nullptr, 0);
  }

  tests::TempDir dir_;
  const std::string folder_ = dir_ / "locks";
};

TEST_F(Claims, TwoGatewaysWithDevicesOfTheirOwnAreNotInEachOthersWay) {
  const auto one = Take({"GPU-1"});
  const auto two = Take({"GPU-2"});
  EXPECT_TRUE(one.ok() && two.ok());
  EXPECT_TRUE(Take({}).ok());
}

TEST_F(Claims, ADeviceThatAnotherProcessGivesAwayIsRefusedAndTheProcessNamed) {
  const pid_t other = Another("GPU-2", geteuid());
  ASSERT_GT(other, 0);
  const auto refused = Take(kDevices);
  ASSERT_TRUE(absl::IsFailedPrecondition(refused.status())) << refused.status();
  EXPECT_THAT(std::string(refused.status().message()), HasSubstr("the device GPU-2"));
  EXPECT_THAT(std::string(refused.status().message()), HasSubstr(std::to_string(other)));
  EXPECT_TRUE(Take({"GPU-1"}).ok()) << "nothing is kept of a refused claim";
  End(other);
  EXPECT_TRUE(Take(kDevices).ok()) << "a claim ends with its process";
}

TEST_F(Claims, AFolderInWhichAJobCouldRemoveClaimsHoldsNone) {
  constexpr uid_t kRunUser = 64'121;
  const auto refuses = [&](const std::string& what) {
    const absl::Status refused = Take({"GPU-1"}, {kRunUser}).status();
    EXPECT_TRUE(absl::IsFailedPrecondition(refused)) << what << refused;
    EXPECT_THAT(std::string(refused.message()), HasSubstr(folder_));
  };
  ASSERT_EQ(mkdir(folder_.c_str(), 0700), 0);
  EXPECT_TRUE(Take({"GPU-1"}, {kRunUser}).ok());
  chmod(folder_.c_str(), 0777);
  refuses("not sticky");
  chmod(folder_.c_str(), 01777);
  EXPECT_TRUE(Take({"GPU-1"}, {kRunUser}).ok());
  if (geteuid() == 0) {
    ASSERT_EQ(chown(folder_.c_str(), kRunUser, kRunUser), 0);
    refuses("a run's user made it");
  }
  std::filesystem::rename(folder_, dir_ / "moved");
  ASSERT_EQ(symlink((dir_ / "moved").c_str(), folder_.c_str()), 0);
  refuses("a link");
}

TEST_F(Claims, AGatewayOfAnotherUserIsSeenAndAJobCannotClaim) {
  if (geteuid() != 0) GTEST_SKIP() << "this process may not become another user";
  constexpr uid_t kOther = 64'120;
  chmod(std::string(dir_.path()).c_str(), 0711);
  ASSERT_TRUE(Take({"GPU-1"}).ok());  // makes the folder
  const pid_t other = Another("GPU-1", kOther);
  ASSERT_GT(other, 0);
  const auto refused = Take(kDevices);
  ASSERT_TRUE(absl::IsFailedPrecondition(refused.status())) << refused.status();
  EXPECT_THAT(std::string(refused.status().message()), HasSubstr("user 64120"));
  EXPECT_TRUE(Take(kDevices, {kOther}).ok()) << "users of runs count for nothing";
  End(other);
  EXPECT_TRUE(Take(kDevices).ok());
}

}  // namespace
}  // namespace plugins::devices
