// The output that is kept of runs that are gone.
#include "plugins/launchers/kept_logs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>

#include "tests/support/temp_dir.h"

namespace plugins::launchers {
namespace {

using ::testing::EndsWith;
using ::testing::StartsWith;

TEST(KeptLogs, TheLastTextOfARunIsRead) {
  const tests::TempDir dir;
  const KeptLogs logs(dir.path() + "/logs");
  EXPECT_TRUE(absl::IsNotFound(logs.Read("r1").status()));
  EXPECT_TRUE(logs.Keep("r1", "begins\n").ok());
  EXPECT_TRUE(logs.Keep("r1", "begins\nends\n").ok());
  EXPECT_EQ(*logs.Read("r1"), "begins\nends\n");
  EXPECT_TRUE(logs.Remove("r1").ok());
  EXPECT_TRUE(absl::IsNotFound(logs.Read("r1").status()));
  EXPECT_TRUE(logs.Remove("r1").ok());
}

TEST(KeptLogs, OfALongTextWholeLinesFromTheEndAreKept) {
  std::string text;
  for (int i = 0; i < 100; ++i) text += "line " + std::to_string(i) + "\n";
  const std::string kept = EndToKeep(text, 200);
  EXPECT_LE(kept.size(), 200u);
  EXPECT_THAT(kept, StartsWith("(the output before this line was not kept)\nline "));
  EXPECT_THAT(kept, EndsWith("line 99\n"));
  EXPECT_EQ(EndToKeep("short\n", 200), "short\n");
}

TEST(KeptLogs, OfTooManyTheOldestGo) {
  const tests::TempDir dir;
  const KeptLogs logs(dir.path(), 2);
  for (const char* run : {"r1", "r2", "r3"}) {
    EXPECT_TRUE(logs.Keep(run, run).ok());
    const auto age = std::chrono::hours(run[1] == '1' ? 2 : 1);
    std::filesystem::last_write_time(dir.path() + "/" + run + ".log",
                                     std::filesystem::file_time_type::clock::now() - age);
  }
  EXPECT_TRUE(logs.Keep("r3", "r3").ok());
  EXPECT_FALSE(logs.Read("r1").ok());
  EXPECT_TRUE(logs.Read("r3").ok());
}

TEST(KeptLogs, AnIdThatIsAPathIsRefused) {
  const tests::TempDir dir;
  const KeptLogs logs(dir.path());
  EXPECT_TRUE(absl::IsInvalidArgument(logs.Keep("../r1", "x")));
  EXPECT_TRUE(absl::IsInvalidArgument(logs.Read("..").status()));
}

}  // namespace
}  // namespace plugins::launchers
