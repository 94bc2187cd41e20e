#include "gateway/routing/files.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "tests/support/temp_dir.h"

namespace gateway::routing {
namespace {

std::string Read(const std::string& path) {
  std::ifstream in(path);
  return (std::stringstream() << in.rdbuf()).str();
}

TEST(RoutingLogFiles, KeepTheNewestLinesWithinTheLimit) {
  const tests::TempDir dir;
  const std::string state = dir / "";
  LogFiles files(state);
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE(files.Append(std::to_string(1000 + i) + "\n", 50, 3).ok());
  }
  EXPECT_EQ(Read(LogPath(state, 0)), "1090\n1091\n1092\n1093\n1094\n1095\n1096\n1097\n1098\n1099\n");
  EXPECT_TRUE(Read(LogPath(state, 1)).starts_with("1080\n"));
  EXPECT_TRUE(Read(LogPath(state, 2)).starts_with("1070\n"));
  EXPECT_FALSE(std::filesystem::exists(LogPath(state, 3)));
}

TEST(RoutingLogFiles, ASmallerLimitRemovesTheOldestFiles) {
  const tests::TempDir dir;
  const std::string state = dir / "";
  LogFiles files(state);
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(files.Append("0123456789\n", 11, 5).ok());
  EXPECT_TRUE(std::filesystem::exists(LogPath(state, 4)));
  ASSERT_TRUE(files.Append("last\n", 11, 1).ok());
  EXPECT_EQ(Read(LogPath(state, 0)), "last\n");
  for (uint32_t n = 1; n < 6; ++n) EXPECT_FALSE(std::filesystem::exists(LogPath(state, n))) << n;
}

TEST(RoutingLogFiles, ALineCutByACrashIsEnded) {
  const tests::TempDir dir;
  const std::string state = dir / "";
  std::ofstream(LogPath(state, 0)) << "{\"whole\":1}\n{\"to";
  LogFiles files(state);
  ASSERT_TRUE(files.Append("{\"next\":1}\n", 1 << 20, 2).ok());
  EXPECT_EQ(Read(LogPath(state, 0)), "{\"whole\":1}\n{\"to\n{\"next\":1}\n");
}

TEST(RoutingLogFiles, AMissingFolderIsAnErrorAndTriedAgain) {
  const tests::TempDir dir;
  const std::string state = dir / "gone";
  LogFiles files(state);
  EXPECT_FALSE(files.Append("a\n", 100, 2).ok());
  std::filesystem::create_directory(state);
  EXPECT_TRUE(files.Append("b\n", 100, 2).ok());
  EXPECT_EQ(Read(LogPath(state, 0)), "b\n");
}

}  // namespace
}  // namespace gateway::routing
