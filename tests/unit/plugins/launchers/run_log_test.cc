#include "plugins/launchers/run_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "tests/support/temp_dir.h"

namespace plugins::launchers {
namespace {

class RunLog : public testing::Test {
 protected:
  void Write(const std::string& text) { std::ofstream(log_, std::ios::app) << text; }
  std::string Tail(const std::vector<std::string>& secrets = {}) const { return LogTail(log_, secrets); }

  tests::TempDir dir_;
  const std::string log_ = dir_ / "log";
};

TEST_F(RunLog, TailLeavesOutWhatTheStepOfWeightsTellsTheGateway) {
  std::ofstream(log_) << "tidegate-weights: {\"phase\":\"failed\"}\ntidegate: the digest is another\n";
  EXPECT_EQ(Tail(), "tidegate: the digest is another");
}

TEST_F(RunLog, FollowsNoLink) {
  std::filesystem::create_symlink(dir_ / "elsewhere", log_);
  EXPECT_FALSE(OpenLog(log_).ok());
  EXPECT_FALSE(std::filesystem::exists(dir_ / "elsewhere"));
}

TEST_F(RunLog, DoesNotReadAReplacedFile) {
  const std::string secret = dir_ / "secret";
  std::ofstream(secret) << "the signing key\n";
  std::filesystem::create_symlink(secret, log_);
  EXPECT_EQ(Tail(), "");
  EXPECT_FALSE(OpenLogForReading(log_).ok());
  std::filesystem::remove(log_);
  std::filesystem::create_hard_link(secret, log_);
  EXPECT_EQ(Tail(), "");
  EXPECT_FALSE(OpenLogForReading(log_).ok());
  std::filesystem::remove(log_);
  ASSERT_EQ(mkfifo(log_.c_str(), 0600), 0);
  EXPECT_EQ(Tail(), "") << "and nobody waits for a writer";
  EXPECT_FALSE(OpenLogForReading(log_).ok());
}

TEST_F(RunLog, AnotherUsersFileIsNotRead) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root";
  Write("planted");
  ASSERT_EQ(chown(log_.c_str(), 71'000, 71'000), 0);
  EXPECT_EQ(Tail(), "");
  EXPECT_FALSE(OpenLogForReading(log_).ok());
  EXPECT_TRUE(OpenLogForReading(log_, LogOwner::kAnyone).ok()) << "the log of a cluster's user";
}

TEST_F(RunLog, ItsTailIsBoundedAndShowsNoSecret) {
  EXPECT_EQ(Tail(), "");
  Write("\n\n  \n");
  EXPECT_EQ(Tail(), "");
  Write("first\nkey=sk-123456 and sk-123456\nlast");
  EXPECT_EQ(Tail({"sk-123456"}), "first | key=*** and *** | last");
  Write("\n" + std::string(5'000, 'y') + "\n");
  EXPECT_EQ(Tail(), std::string(kTailBytes, 'y'));
  // Also where the secret would be cut in two by what is shown.
  Write("secret-" + std::string(kTailBytes, 'z') + "\n");
  EXPECT_EQ(Tail({"secret-" + std::string(kTailBytes, 'z')}), "***");
}

}  // namespace
}  // namespace plugins::launchers
