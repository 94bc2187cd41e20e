#include "plugins/sinks/file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sys/resource.h>

#include <csignal>
#include <set>
#include <vector>

#include "conf/text.h"
#include "tests/support/loop_test.h"
#include "tests/support/temp_dir.h"

namespace plugins::sinks {
namespace {

using gateway::net::Task;
using tests::ReadFile;
using tests::RunOnLoop;
using tests::TempDir;
using tests::TestLoop;

std::vector<Record> Lines(uint64_t first, uint64_t last) {
  std::vector<Record> batch;
  for (uint64_t seq = first; seq <= last; ++seq) batch.push_back({seq, {}, "line " + std::to_string(seq)});
  return batch;
}

absl::Status Deliver(FileSink::Options options, const std::vector<std::vector<Record>>& batches) {
  absl::Status status;
  RunOnLoop([&](TestLoop& loop) -> Task<void> {
    FileSink sink(loop, options);
    for (const auto& batch : batches) status.Update(co_await sink.Deliver(batch, kOwnTimeout));
  });
  return status;
}

std::set<std::string> Names(const TempDir& folder) {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path()))
    names.insert(entry.path().filename());
  return names;
}

TEST(FileSink, AppendsLinesOverRestarts) {
  TempDir folder;
  EXPECT_TRUE(Deliver({folder / "audit"}, {Lines(1, 2)}).ok());
  EXPECT_TRUE(Deliver({folder / "audit"}, {Lines(3, 3), {}}).ok());
  EXPECT_EQ(ReadFile(folder / "audit"), "line 1\nline 2\nline 3\n");
}

TEST(FileSink, CutsALineThatACrashTore) {
  for (const std::string& torn : {std::string("{\"seq\":3,"), std::string(10'000, 'x')}) {
    for (const std::string whole : {"", "line 1\nline 2\n"}) {
      TempDir folder;
      std::ofstream(folder / "audit") << whole << torn;
      EXPECT_TRUE(Deliver({folder / "audit"}, {Lines(3, 3)}).ok());
      EXPECT_EQ(ReadFile(folder / "audit"), whole + "line 3\n");
    }
  }
}

TEST(FileSink, RotatesBySizeUnderNamesThatSortAndNeverOverwrites) {
  TempDir folder;
  FileSink::Options options{folder / "audit"};
  options.max_bytes = 20;
  EXPECT_TRUE(Deliver(options, {Lines(1, 2), Lines(3, 4), Lines(5, 5)}).ok());
  EXPECT_EQ(ReadFile(folder / "audit.00000000000000000002"), "line 1\nline 2\n");
  EXPECT_EQ(ReadFile(folder / "audit.00000000000000000004"), "line 3\nline 4\n");
  EXPECT_EQ(ReadFile(folder / "audit"), "line 5\n");
  // The same records again, after a crash before the cursor was written.
  EXPECT_TRUE(Deliver(options, {Lines(3, 5)}).ok());
  EXPECT_EQ(Names(folder),
            (std::set<std::string>{"audit", "audit.00000000000000000002", "audit.00000000000000000002-1",
                                   "audit.00000000000000000004"}));
}

TEST(FileSink, KeepsAsManyRotatedFilesAsAsked) {
  TempDir folder;
  FileSink::Options options{folder / "audit"};
  options.max_bytes = 1;
  options.keep = 2;
  std::ofstream(folder / "audit.notes") << "someone else's";
  EXPECT_TRUE(Deliver(options, {Lines(1, 1), Lines(2, 2), Lines(3, 3), Lines(4, 4), Lines(5, 5)}).ok());
  EXPECT_EQ(Names(folder), (std::set<std::string>{"audit", "audit.00000000000000000003",
                                                  "audit.00000000000000000004", "audit.notes"}));
}

TEST(FileSink, FollowsAFileThatWasMovedAway) {
  TempDir folder;
  RunOnLoop([&](TestLoop& loop) -> Task<void> {
    FileSink sink(loop, {folder / "audit"});
    const auto first = Lines(1, 1);
    const auto second = Lines(2, 2);
    EXPECT_TRUE((co_await sink.Deliver(first, kOwnTimeout)).ok());
    std::filesystem::rename(folder / "audit", folder / "old");
    EXPECT_TRUE((co_await sink.Deliver(second, kOwnTimeout)).ok());
  });
  EXPECT_EQ(ReadFile(folder / "old"), "line 1\n");
  EXPECT_EQ(ReadFile(folder / "audit"), "line 2\n");
}

TEST(FileSink, SaysWhatItCannotWrite) {
  TempDir folder;
  const absl::Status missing = Deliver({folder / "no/audit"}, {Lines(1, 1)});
  EXPECT_THAT(std::string(conf::Std(missing.message())), ::testing::HasSubstr("/no/audit: No such file"));
  EXPECT_EQ(Deliver({"/dev/null"}, {Lines(1, 1)}).code(), absl::StatusCode::kInvalidArgument);
}

TEST(FileSink, LeavesNothingHalfWrittenOnAFullDisk) {
  TempDir folder;
  RunOnLoop([&](TestLoop& loop) -> Task<void> {
    FileSink sink(loop, {folder / "audit"});
    const auto first = Lines(1, 1);
    EXPECT_TRUE((co_await sink.Deliver(first, kOwnTimeout)).ok());
    rlimit before;
    getrlimit(RLIMIT_FSIZE, &before);
    const auto ignored = signal(SIGXFSZ, SIG_IGN);
    const rlimit tight{10, before.rlim_max};
    setrlimit(RLIMIT_FSIZE, &tight);
    const auto second = Lines(2, 9);
    const absl::Status full = co_await sink.Deliver(second, kOwnTimeout);
    setrlimit(RLIMIT_FSIZE, &before);
    signal(SIGXFSZ, ignored);
    EXPECT_EQ(full.code(), absl::StatusCode::kUnavailable);
    EXPECT_EQ(ReadFile(folder / "audit"), "line 1\n");
    EXPECT_TRUE((co_await sink.Deliver(second, kOwnTimeout)).ok());
  });
  EXPECT_TRUE(ReadFile(folder / "audit").starts_with("line 1\nline 2\nline 3\n"));
}

}  // namespace
}  // namespace plugins::sinks
