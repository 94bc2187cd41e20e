#include "plugins/launchers/run_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tests/support/small_disk.h"
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

TEST_F(RunLog, RotationKeepsItsEndInWholeLinesAndAppendsGoOn) {
  const auto writer = OpenLog(log_);
  ASSERT_TRUE(writer.ok());
  const auto print = [&](const std::string& text) {
    EXPECT_EQ(write(writer->get(), text.data(), text.size()), static_cast<ssize_t>(text.size()));
  };
  print("one\ntwo\nthree\n");
  ASSERT_TRUE(RotateLog(log_, 8).ok());  // "o\nthree\n"
  EXPECT_EQ(tests::ReadFile(RotatedLog(log_)), "three\n");
  EXPECT_EQ(tests::ReadFile(log_), "");
  print("four\n");
  EXPECT_EQ(tests::ReadFile(log_), "four\n");
  ASSERT_TRUE(RotateLog(log_, 100).ok());
  EXPECT_EQ(tests::ReadFile(RotatedLog(log_)), "four\n");
}

TEST_F(RunLog, IsCutAlsoWhereThereIsNoRoomForItsEnd) {
  const tests::SmallDisk disk;
  if (!disk.mounted()) GTEST_SKIP() << "may not mount a file system here";
  const std::string log = disk.path() + "/log";
  std::ofstream(log) << std::string(1 << 20, 'x');
  disk.Fill();
  EXPECT_FALSE(RotateLog(log, 1 << 20).ok());
  EXPECT_EQ(LogBytes(log), 0u);
  EXPECT_FALSE(std::filesystem::exists(log + ".new"));
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
