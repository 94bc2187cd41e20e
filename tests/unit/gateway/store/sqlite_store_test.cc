// What is SQLite's own: the file, its locks, crashes, a full disk, and damage.
#include "gateway/store/sqlite_store.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "tests/support/kill_at_syscall.h"
#include "tests/support/loop_test.h"
#include "tests/support/small_disk.h"
#include "tests/support/temp_dir.h"

namespace {

namespace store = gateway::store;
namespace net = gateway::net;
namespace sqlite = gateway::sqlite;
using store::Object;
using store::SqliteFile;
using store::Store;
using store::Write;
using testing::AllOf;
using testing::HasSubstr;
using tests::TempDir;
using tests::TestLoop;

std::unique_ptr<SqliteFile> OpenFile(const std::string& path) {
  auto file = SqliteFile::Open({.path = path});
  EXPECT_TRUE(file.ok()) << file.status();
  return file.ok() ? *std::move(file) : nullptr;
}

std::string Message(const absl::Status& status) {
  return std::string(status.message());
}

// Another process' connection: a lock for as long as it lives.
class WriteLock {
 public:
  explicit WriteLock(const std::string& path)
      : db_(*sqlite::Database::Open(path, sqlite::Database::Sync::kFull)) {
    EXPECT_TRUE(db_->Execute("BEGIN IMMEDIATE").ok());
  }
  ~WriteLock() { EXPECT_TRUE(db_->Execute("ROLLBACK").ok()); }

 private:
  const std::unique_ptr<sqlite::Database> db_;
};

TEST(SqliteStore, TheFileIsForItsOwnerOnly) {
  const TempDir dir;
  const std::string path = dir / "state.db";
  const mode_t before = umask(0);
  {
    const auto file = OpenFile(path);
    ASSERT_TRUE(file->Commit({Write::Create("key", "a", "x")}).ok());
    for (const char* suffix : {"", "-wal", "-shm"}) {
      struct stat found;
      ASSERT_EQ(stat((path + suffix).c_str(), &found), 0) << suffix;
      EXPECT_EQ(found.st_mode & 0777, 0600u) << suffix;
    }
  }
  umask(before);
  ASSERT_EQ(chmod(path.c_str(), 0640), 0);
  const auto refused = SqliteFile::Open({.path = path});
  EXPECT_TRUE(absl::IsFailedPrecondition(refused.status()));
  EXPECT_THAT(Message(refused.status()),
              AllOf(HasSubstr(path), HasSubstr("mode 640"), HasSubstr("chmod 600")));
}

TEST(SqliteStore, AFileThatMayNotBeWrittenIsExplainedInWords) {
  tests::TempDir dir;
  const std::string path = dir / "state.db";
  {
    const auto db = *sqlite::Database::Open(path, sqlite::Database::Sync::kNormal);
    ASSERT_TRUE(db->Execute("CREATE TABLE recipes (name TEXT); PRAGMA query_only = 1").ok());
    const std::string refused = Message(db->Execute("INSERT INTO recipes VALUES ('soup')"));
    EXPECT_THAT(refused, AllOf(HasSubstr(path), HasSubstr("readonly"), Not(HasSubstr("INSERT"))));
    EXPECT_THAT(Message(db->Prepare("SELECT * FROM meals").status()),
                AllOf(HasSubstr("no such table: meals"), Not(HasSubstr("SELECT"))));
  }
  if (geteuid() != 0) GTEST_SKIP() << "only root may become another user";
  const auto as_another = [&path] {
    for (const char* const beside : {"-wal", "-shm"}) std::filesystem::remove(path + beside);
    EXPECT_EQ(seteuid(65'534), 0);
    absl::Status tried;
    if (auto db = sqlite::Database::Open(path, sqlite::Database::Sync::kNormal); db.ok()) {
      tried = (*db)->Execute("INSERT INTO recipes VALUES ('soup')");
    } else {
      tried = db.status();
    }
    EXPECT_EQ(seteuid(0), 0);
    EXPECT_TRUE(absl::IsUnavailable(tried)) << tried;
    return Message(tried);
  };
  chmod(dir.path().c_str(), 0777);
  chmod(path.c_str(), 0444);
  EXPECT_EQ(as_another(),
            path +
                ": the file (mode 444, of user 0) may not be written by user 65534; run this as "
                "its owner, or correct its rights");
  chmod(path.c_str(), 0600);
  EXPECT_THAT(as_another(), HasSubstr("may not be read by user 65534"));
  chmod(path.c_str(), 0666);
  chmod(dir.path().c_str(), 0755);
  EXPECT_THAT(as_another(), HasSubstr("its folder (mode 755, of user 0) may not be written"));
}

TEST(SqliteStore, AFileThatIsNoStoreIsNamedAndLeftAsItIs) {
  const auto garbage = [](const std::string& path) {
    std::ofstream(path) << "this is no database, whatever its name says, and long enough to be read as one";
  };
  const auto foreign = [](const std::string& path) {
    const auto db = *sqlite::Database::Open(path, sqlite::Database::Sync::kNormal);
    ASSERT_TRUE(db->Execute("CREATE TABLE recipes (name TEXT)").ok());
  };
  const auto newer = [](const std::string& path) {
    OpenFile(path).reset();
    const auto db = *sqlite::Database::Open(path, sqlite::Database::Sync::kNormal);
    ASSERT_TRUE(db->Execute("PRAGMA user_version = 2").ok());
  };
  const auto without_table = [](const std::string& path) {
    OpenFile(path).reset();
    const auto db = *sqlite::Database::Open(path, sqlite::Database::Sync::kNormal);
    ASSERT_TRUE(db->Execute("ALTER TABLE objects RENAME TO things").ok());
  };
  const auto without_sequence = [](const std::string& path) {
    OpenFile(path).reset();
    const auto db = *sqlite::Database::Open(path, sqlite::Database::Sync::kNormal);
    ASSERT_TRUE(db->Execute("DELETE FROM sequence").ok());
  };
  const auto cut = [](const std::string& path) {
    const auto file = OpenFile(path);
    for (int i = 0; i < 50; ++i) {
      ASSERT_TRUE(file->Commit({Write::Create("key", std::to_string(i), std::string(1000, 'x'))}).ok());
    }
  };
  const auto shorten = [&](const std::string& path) {
    cut(path);
    std::filesystem::resize_file(path, std::filesystem::file_size(path) / 2);
  };
  const auto overwrite = [&](const std::string& path) {
    cut(path);
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(4096 + 8);
    file << std::string(2000, '\xee');
  };
  const struct {
    const char* what;
    std::function<void(const std::string&)> make;
    absl::StatusCode code;
    const char* words;
  } cases[] = {
      {"garbage", garbage, absl::StatusCode::kDataLoss, "not a database"},
      {"of another program", foreign, absl::StatusCode::kFailedPrecondition, "another program"},
      {"of a newer version", newer, absl::StatusCode::kFailedPrecondition, "schema 2"},
      {"without its table", without_table, absl::StatusCode::kDataLoss, "not those of schema 1"},
      {"without its sequence", without_sequence, absl::StatusCode::kDataLoss, "sequence of changes is gone"},
      {"cut", shorten, absl::StatusCode::kDataLoss, "malformed"},
      {"overwritten", overwrite, absl::StatusCode::kDataLoss, "is damaged"},
  };
  for (const auto& c : cases) {
    SCOPED_TRACE(c.what);
    const TempDir dir;
    const std::string path = dir / "state.db";
    c.make(path);
    chmod(path.c_str(), 0600);
    TestLoop loop([](const std::exception_ptr&) {});
    const auto opened = store::OpenSqliteStore(loop, {.file = {.path = path}});
    ASSERT_FALSE(opened.ok());
    EXPECT_EQ(opened.status().code(), c.code) << opened.status();
    EXPECT_THAT(Message(opened.status()), AllOf(HasSubstr(path), HasSubstr(c.words)));
    EXPECT_TRUE(std::filesystem::exists(path));
  }
}

TEST(SqliteStore, WhatIsNotARegularFileIsRefused) {
  const TempDir dir;
  const std::string path = dir / "state.db";
  std::filesystem::create_directory(path);
  const auto folder = SqliteFile::Open({.path = path});
  EXPECT_TRUE(absl::IsFailedPrecondition(folder.status())) << folder.status();
  std::filesystem::remove(path);
  std::filesystem::create_symlink(dir / "elsewhere", path);
  const auto link = SqliteFile::Open({.path = path});
  EXPECT_TRUE(absl::IsFailedPrecondition(link.status())) << link.status();
  EXPECT_FALSE(std::filesystem::exists(dir / "elsewhere"));
}

TEST(SqliteStore, ALockOfAnotherProcessHoldsUpNoReadAndNoLoopAndIsSaid) {
  const TempDir dir;
  const std::string path = dir / "state.db";
  tests::RunOnLoop([&](TestLoop& loop) -> net::Task<void> {
    auto opened =
        store::OpenSqliteStore(loop, {.file = {.path = path}, .patience = std::chrono::milliseconds(300)});
    const auto store = *std::move(opened);
    std::vector<Write> first = {Write::Create("key", "a", "x")};
    EXPECT_TRUE((co_await store->Commit(first)).ok());
    {
      const WriteLock lock(path);
      EXPECT_TRUE((co_await store->Get("key", "a")).ok());
      std::optional<absl::Status> ended;
      const auto write = [&]() -> net::Task<void> {
        std::vector<Write> second = {Write::Create("key", "b", "x")};
        ended = (co_await store->Commit(second)).status();
      };
      loop.tasks.Spawn(write());
      int ticks = 0;
      net::Sleep pause(loop.watchdog);
      while (!ended) {
        co_await pause.For(net::Watchdog::kTick);
        ++ticks;
      }
      EXPECT_GE(ticks, 3) << "the loop goes on while the store waits";
      EXPECT_TRUE(absl::IsUnavailable(*ended)) << *ended;
      EXPECT_THAT(Message(*ended), AllOf(HasSubstr(path), HasSubstr("another process")));
    }
    EXPECT_FALSE((*co_await store->Get("key", "b")).has_value()) << "a refused write was written";
    std::vector<Write> third = {Write::Create("key", "b", "x")};
    EXPECT_TRUE((co_await store->Commit(third)).ok());
  });
}

TEST(SqliteStore, WhatWaitsIsBoundedAndEndsInItsTime) {
  const TempDir dir;
  const std::string path = dir / "state.db";
  tests::RunOnLoop([&](TestLoop& loop) -> net::Task<void> {
    auto opened = store::OpenSqliteStore(loop, {.file = {.path = path},
                                                .patience = std::chrono::milliseconds(200),
                                                .max_waiting = 4,
                                                .max_waiting_bytes = 100});
    const auto store = *std::move(opened);
    int full = 0;
    int late = 0;
    int ended = 0;
    const auto write = [&](int i, size_t bytes) -> net::Task<void> {
      std::vector<Write> writes = {Write::Create("key", std::to_string(i), std::string(bytes, 'x'))};
      const absl::Status status = (co_await store->Commit(writes)).status();
      full += absl::IsResourceExhausted(status);
      late += absl::IsUnavailable(status);
      ++ended;
    };
    {
      const WriteLock lock(path);
      for (int i = 0; i < 20; ++i) loop.tasks.Spawn(write(i, 1));
      EXPECT_GE(full, 15) << "at most four wait, and one is at work";
      EXPECT_TRUE(co_await tests::Eventually(loop, [&] { return ended == 20; }));
      EXPECT_EQ(full + late, 20);
      full = 0;
      for (int i = 0; i < 3; ++i) loop.tasks.Spawn(write(i, 60));
      EXPECT_GE(full, 1) << "of 100 bytes";
      EXPECT_TRUE(co_await tests::Eventually(loop, [&] { return ended == 23; }));
    }
    std::vector<Write> large = {Write::Create("key", "large", std::string(1000, 'x'))};
    EXPECT_TRUE((co_await store->Commit(large)).ok()) << "alone, an operation may be larger";
  });
}

TEST(SqliteStore, AFullDiskRefusesChangesSaysSoAndLosesNothing) {
  const tests::SmallDisk disk;
  if (!disk.mounted()) GTEST_SKIP() << "needs the right to mount a file system";
  const std::string path = disk.path() + "/state.db";
  const auto file = OpenFile(path);
  ASSERT_TRUE(file->Commit({Write::Create("key", "before", "x")}).ok());
  disk.Fill();
  std::vector<std::string> kept = {"before"};
  absl::Status refused;
  for (int i = 0; i < 2000 && refused.ok(); ++i) {
    const std::string id = std::to_string(i);
    refused = file->Commit({Write::Create("key", id, std::string(3000, 'x'))}).status();
    if (refused.ok()) kept.push_back(id);
  }
  ASSERT_TRUE(absl::IsResourceExhausted(refused)) << refused;
  EXPECT_THAT(Message(refused), AllOf(HasSubstr(path), HasSubstr("disk is full")));
  EXPECT_EQ(file->List("key")->objects.size(), kept.size()) << "reading goes on";
  disk.Empty();
  ASSERT_TRUE(file->Commit({Write::Create("key", "after", "x")}).ok());
  const auto again = OpenFile(path);
  for (const std::string& id : kept) EXPECT_TRUE(again->Get("key", id)->has_value()) << id;
  EXPECT_EQ(again->List("key")->objects.size(), kept.size() + 1);
}

// Each transaction writes two objects; what it acknowledges is written to a pipe. The file is made, written,
// followed by a checkpoint, and closed.
TEST(SqliteStore, AKillBeforeAnySystemCallLosesNoAcknowledgedChangeAndLeavesNoHalfOne) {
  constexpr int kRounds = 3;
  std::optional<TempDir> dir;
  const auto path = [&] { return *dir / "state.db"; };
  const bool traced = tests::KillAtSyscall::Run(
      {.prepare = [&] { dir.emplace(); },
       .work =
           [&](int acknowledgements) {
             auto file = SqliteFile::Open({.path = path()});
             if (!file.ok()) _exit(1);
             for (int i = 0; i < kRounds; ++i) {
               const std::string id = std::to_string(i);
               std::vector<Write> writes = {Write::Create("key", id, std::string(5000, 'k')),
                                            Write::Create("key_event", id, "e")};
               if (i > 0) {
                 const auto old = (*file)->Get("key_event", std::to_string(i - 1));
                 if (!old.ok() || !*old) _exit(2);
                 writes.push_back(Write::Remove(**old));
               }
               if (!(*file)->Commit(writes).ok()) _exit(3);
               if (write(acknowledgements, id.data(), 1) != 1) _exit(4);
             }
             file->reset();
           },
       .check =
           [&](const std::string& acknowledged) {
             const auto file = OpenFile(path());
             ASSERT_NE(file, nullptr);
             const auto keys = file->List("key");
             ASSERT_TRUE(keys.ok()) << keys.status();
             const size_t n = keys->objects.size();
             EXPECT_GE(n, acknowledged.size());
             EXPECT_LE(n, acknowledged.size() + 1);
             for (size_t i = 0; i < n; ++i) EXPECT_EQ(keys->objects[i].id, std::to_string(i));
             const auto events = file->List("key_event");
             ASSERT_EQ(events->objects.size(), n > 0 ? 1u : 0u) << "all of a transaction or nothing";
             if (n > 0) EXPECT_EQ(events->objects[0].id, std::to_string(n - 1));
             EXPECT_EQ(keys->number, n == 0 ? 0 : 3 * n - 1);
             ASSERT_TRUE(file->Commit({Write::Create("key", "after", "x")}).ok());
           }});
  if (!traced) GTEST_SKIP() << "needs the right to trace a child";
}

TEST(SqliteStore, TwoProcessesThatWriteLoseAndRepeatNothing) {
  constexpr int kEach = 100;
  const TempDir dir;
  const std::string path = dir / "state.db";
  OpenFile(path).reset();
  std::vector<pid_t> writers;
  for (int w = 0; w < 2; ++w) {
    const pid_t pid = fork();
    ASSERT_GE(pid, 0);
    if (pid == 0) {
      auto file = SqliteFile::Open({.path = path, .busy_timeout = std::chrono::seconds(60)});
      if (!file.ok()) _exit(1);
      for (int i = 0; i < kEach;) {
        const auto count = (*file)->Get("cordon", "count");
        if (!count.ok()) _exit(2);
        const int now = *count ? std::stoi((*count)->body) : 0;
        const Write write =
            *count ? Write::Replace(**count, std::to_string(now + 1)) : Write::Create("cordon", "count", "1");
        const absl::Status status =
            (*file)->Commit({write, Write::Create("key", std::to_string(now), "x")}).status();
        if (!status.ok() && !absl::IsAborted(status)) _exit(3);
        i += status.ok();
      }
      _exit(0);
    }
    writers.push_back(pid);
  }
  for (const pid_t writer : writers) {
    int status = 0;
    ASSERT_EQ(waitpid(writer, &status, 0), writer);
    EXPECT_EQ(status, 0);
  }
  const auto file = OpenFile(path);
  EXPECT_EQ((*file->Get("cordon", "count"))->body, std::to_string(2 * kEach));
  EXPECT_EQ(file->List("key")->objects.size(), 2u * kEach);
  EXPECT_EQ(*file->LastNumber(), 4u * kEach);
}

}  // namespace
