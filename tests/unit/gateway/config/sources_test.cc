#include "gateway/config/sources.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <optional>
#include <string>

#include "tests/support/temp_dir.h"

namespace gateway {
namespace {

using ::testing::UnorderedElementsAre;

TEST(SystemSources, ReadRegularFilesOnly) {
  const conf::Sources sources = SystemSources();
  const tests::TempDir dir;
  std::ofstream(dir / "key") << "contents\n";
  EXPECT_EQ(sources.file(dir / "key").value(), "contents\n");
  EXPECT_EQ(sources.file(dir / "none").status().message(),
            "cannot open " + (dir / "none") + ": No such file or directory");
  ASSERT_EQ(mkfifo((dir / "fifo").c_str(), 0600), 0);  // a blocking open would hang here
  EXPECT_EQ(sources.file(dir / "fifo").status().message(),
            "cannot read " + (dir / "fifo") + ": it is not a regular file");
  EXPECT_FALSE(sources.file("/dev/zero").ok());
}

TEST(SystemSources, BoundTheSizeOfAFile) {
  const tests::TempDir dir;
  std::ofstream(dir / "large") << "";
  ASSERT_EQ(truncate((dir / "large").c_str(), (4 << 20) + 1), 0);
  EXPECT_EQ(SystemSources().file(dir / "large").status().message(),
            "cannot read " + (dir / "large") + ": it is larger than 4194304 bytes");
}

TEST(SystemSources, ListTheNamesInAFolder) {
  const tests::TempDir dir;
  std::ofstream(dir / "a.yaml") << "";
  std::ofstream(dir / "b.yaml") << "";
  EXPECT_THAT(SystemSources().folder(dir.path()).value(), UnorderedElementsAre("a.yaml", "b.yaml"));
  EXPECT_FALSE(SystemSources().folder(dir / "none").ok());
}

TEST(SystemSources, ReadTheEnvironment) {
  ASSERT_EQ(setenv("TIDEGATE_SOURCES_TEST", "v", 1), 0);
  EXPECT_EQ(SystemSources().environment("TIDEGATE_SOURCES_TEST"), "v");
  unsetenv("TIDEGATE_SOURCES_TEST");
  EXPECT_EQ(SystemSources().environment("TIDEGATE_SOURCES_TEST"), std::nullopt);
}

}  // namespace
}  // namespace gateway
