#include "gateway/net/files.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <string>

#include "tests/support/temp_dir.h"

namespace gateway::net {
namespace {

namespace fs = std::filesystem;

mode_t ModeOf(const std::string& path) {
  struct stat info{};
  return stat(path.c_str(), &info) == 0 ? info.st_mode & 07777 : 0;
}

size_t EntriesIn(const std::string& directory) {
  return static_cast<size_t>(std::distance(fs::directory_iterator(directory), fs::directory_iterator()));
}

// For as long as it lives, no file of this process can grow beyond `bytes`.
class SmallFiles {
 public:
  explicit SmallFiles(rlim_t bytes) : handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit small{bytes, before_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &small);
  }
  ~SmallFiles() {
    setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }

 private:
  void (*handler_)(int);
  rlimit before_{};
};

TEST(Files, ReadAFileOfExactlyTheBound) {
  const tests::TempDir dir;
  const std::string path = dir / "a";
  for (const size_t size : {size_t{0}, size_t{1}, size_t{100'000}}) {
    const std::string content(size, 'x');
    ASSERT_TRUE(WriteFile(path, content).ok());
    EXPECT_EQ(ReadFile(path, size).value(), content);
    if (size == 0) continue;
    const absl::Status refused = ReadFile(path, size - 1).status();
    EXPECT_TRUE(absl::IsFailedPrecondition(refused)) << refused;
  }
}

TEST(Files, ReadFilesOfUnknownSize) {
  EXPECT_THAT(ReadFile("/proc/self/status", 1 << 20).value(), testing::StartsWith("Name:"));
  EXPECT_TRUE(absl::IsFailedPrecondition(ReadFile("/proc/self/status", 10).status()));
}

TEST(Files, ReadFileRefusesOtherThanRegularFiles) {
  const tests::TempDir dir;
  ASSERT_EQ(mkfifo((dir / "fifo").c_str(), 0600), 0);  // a blocking open would hang here
  EXPECT_EQ(ReadFile(dir / "fifo", 10).status().message(),
            "cannot read " + (dir / "fifo") + ": it is not a regular file");
  EXPECT_EQ(ReadFile(dir.path(), 10).status().message(), "cannot read " + dir.path() + ": Is a directory");
  EXPECT_TRUE(absl::IsNotFound(ReadFile(dir / "none", 10).status()));
}

TEST(Files, ReadAllReadsAPipeToItsEnd) {
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  const Fd out(ends[0]);
  Fd in(ends[1]);
  ASSERT_TRUE(WriteAll(in.get(), "pipe", "text").ok());
  in.Close();
  EXPECT_EQ(ReadAll(out.get(), "pipe", 100).value(), "text");
}

TEST(Files, ReplaceFileLeavesOnlyTheNewContent) {
  const tests::TempDir dir;
  const std::string path = dir / "state";
  ASSERT_TRUE(ReplaceFile(path, "first", 0600).ok());
  ASSERT_TRUE(ReplaceFile(path, "second", 0600).ok());
  EXPECT_EQ(tests::ReadFile(path), "second");
  EXPECT_EQ(ModeOf(path), mode_t{0600});
  EXPECT_EQ(EntriesIn(dir.path()), 1u);
}

TEST(Files, ReplaceFileKeepsTheOldContentWhenTheDiskIsFull) {
  const tests::TempDir dir;
  const std::string path = dir / "state";
  ASSERT_TRUE(ReplaceFile(path, "old").ok());
  {
    const SmallFiles limit(4096);
    const absl::Status refused = ReplaceFile(path, std::string(10'000, 'x'));
    EXPECT_TRUE(absl::IsUnavailable(refused));
    EXPECT_EQ(refused.message(), "cannot write " + path + ".new: File too large");
  }
  EXPECT_EQ(tests::ReadFile(path), "old");
  EXPECT_EQ(EntriesIn(dir.path()), 1u);
}

TEST(Files, ReplaceFileWritesThroughNoSymbolicLink) {
  const tests::TempDir dir;
  ASSERT_TRUE(WriteFile(dir / "victim", "untouched").ok());
  fs::create_symlink(dir / "victim", dir / "state.new");
  EXPECT_FALSE(ReplaceFile(dir / "state", "content").ok());
  EXPECT_EQ(tests::ReadFile(dir / "victim"), "untouched");
}

TEST(Files, RemoveFileAcceptsAFileThatIsGone) {
  const tests::TempDir dir;
  ASSERT_TRUE(WriteFile(dir / "a", "").ok());
  EXPECT_TRUE(RemoveFile(dir / "a").ok());
  EXPECT_TRUE(RemoveFile(dir / "a").ok());
  EXPECT_FALSE(RemoveFile(dir.path()).ok());
}

TEST(Files, ReadAtStopsAtTheEndOnly) {
  const tests::TempDir dir;
  const std::string path = dir.path() + "/file";
  ASSERT_TRUE(WriteFile(path, "0123456789").ok());
  const absl::StatusOr<Fd> file = OpenFile(path, O_RDONLY);
  ASSERT_TRUE(file.ok());
  std::string text(4, ' ');
  EXPECT_EQ(*ReadAt(file->get(), path, 3, text), 4u);
  EXPECT_EQ(text, "3456");
  EXPECT_EQ(*ReadAt(file->get(), path, 8, text), 2u);
  EXPECT_EQ(text.substr(0, 2), "89");
  EXPECT_EQ(*ReadAt(file->get(), path, 10, text), 0u);
  EXPECT_FALSE(ReadAt(-1, path, 0, text).ok());
}

TEST(Files, RenameToFreeReplacesNothing) {
  const tests::TempDir dir;
  const std::string from = dir.path() + "/from";
  const std::string to = dir.path() + "/to";
  EXPECT_TRUE(absl::IsNotFound(RenameToFree(from, to)));
  ASSERT_TRUE(WriteFile(from, "new").ok());
  ASSERT_TRUE(WriteFile(to, "old").ok());
  EXPECT_TRUE(absl::IsAlreadyExists(RenameToFree(from, to)));
  EXPECT_EQ(*ReadFile(to, 10), "old");
  ASSERT_TRUE(RemoveFile(to).ok());
  EXPECT_TRUE(RenameToFree(from, to).ok());
  EXPECT_EQ(*ReadFile(to, 10), "new");
}

TEST(Files, MakeDirectoriesCreatesMissingParents) {
  const tests::TempDir dir;
  const mode_t umask_before = umask(022);
  EXPECT_TRUE(MakeDirectories(dir / "a/b/c", 0700).ok());
  EXPECT_TRUE(MakeDirectories(dir / "a/b/c/").ok());
  EXPECT_TRUE(MakeDirectories("/").ok());
  umask(umask_before);
  for (const char* made : {"a", "a/b", "a/b/c"}) EXPECT_EQ(ModeOf(dir / made), mode_t{0700}) << made;
  ASSERT_TRUE(WriteFile(dir / "file", "").ok());
  EXPECT_FALSE(MakeDirectories(dir / "file").ok());
  EXPECT_FALSE(MakeDirectories(dir / "file/below").ok());
  EXPECT_FALSE(MakeDirectories("").ok());
}

}  // namespace
}  // namespace gateway::net
