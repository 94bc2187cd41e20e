#include "gateway/control/jobs/job_log.h"

#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "tests/support/temp_dir.h"

namespace gateway::control {
namespace {

using plugins::launchers::LogOwner;

constexpr char kTide[] = "\xE6\xBD\xAE";  // a character of three bytes

class JobLogTest : public testing::Test {
 protected:
  void Print(std::string_view text) { std::ofstream(path_, std::ios::app) << text; }
  JobLog Read(uint64_t from, size_t bytes = kMostLog) {
    absl::StatusOr<JobLog> log = ReadJobLog(path_, {.from = from, .bytes = bytes}, LogOwner::kThisProcess);
    EXPECT_TRUE(log.ok()) << log.status();
    return log.ok() ? *std::move(log) : JobLog();
  }

  tests::TempDir folder_;
  const std::string path_ = folder_ / "log";
};

TEST_F(JobLogTest, ACharacterOfWhichOnlyABeginIsThereWaitsForItsRest) {
  Print(std::string_view(kTide, 1));
  const JobLog begun = Read(0);
  EXPECT_EQ(begun.text, "");
  EXPECT_EQ(begun.next, 0u);
  Print(kTide + 1);
  Print(std::string_view(kTide, 2));
  const JobLog one = Read(begun.next);
  EXPECT_EQ(one.text, kTide);
  EXPECT_EQ(one.next, 3u);
}

TEST_F(JobLogTest, PiecesTooSmallForACharacterStillComeToTheEnd) {
  Print(std::string(kTide) + "x");
  std::string all;
  uint64_t next = 0;
  for (int i = 0; i < 4; ++i) {
    const JobLog log = Read(next, 1);
    all += log.text;
    next = log.next;
  }
  EXPECT_EQ(all, std::string(kTide) + "x");
}

}  // namespace
}  // namespace gateway::control
