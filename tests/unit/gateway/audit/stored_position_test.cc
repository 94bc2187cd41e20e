#include "gateway/audit/stored_position.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "gateway/store/kinds.h"
#include "gateway/store/sqlite_store.h"
#include "tests/support/loop_test.h"
#include "tests/support/temp_dir.h"

namespace gateway {
namespace {

using tests::TempDir;
using tests::TestLoop;

TEST(StoredPosition, IsWhatWasSavedLast) {
  const TempDir dir;
  tests::RunOnLoop([&](TestLoop& loop) -> net::Task<void> {
    const auto store = *store::OpenSqliteStore(loop, {.file = {.path = dir / "state.db"}});
    StoredPosition siem(*store, ReaderOfSink("siem"));
    EXPECT_EQ(*co_await siem.Load(), std::nullopt);
    for (const char* text : {"1\n", "2\n", "3\n"}) EXPECT_TRUE((co_await siem.Save(text)).ok());
    StoredPosition again(*store, ReaderOfSink("siem"));
    EXPECT_EQ(*co_await again.Load(), "3\n");
    StoredPosition other(*store, ReaderOfSink("other"));
    EXPECT_EQ(*co_await other.Load(), std::nullopt);
  });
}

TEST(StoredPosition, IsSavedAgainAfterTheStoreRefusedIt) {
  const TempDir dir;
  const std::string path = dir / "state.db";
  tests::RunOnLoop([&](TestLoop& loop) -> net::Task<void> {
    const auto store =
        *store::OpenSqliteStore(loop, {.file = {.path = path}, .patience = std::chrono::milliseconds(100)});
    StoredPosition siem(*store, ReaderOfSink("siem"));
    EXPECT_TRUE((co_await siem.Save("1\n")).ok());
    {
      const auto other = *sqlite::Database::Open(path, sqlite::Database::Sync::kFull);
      EXPECT_TRUE(other->Execute("BEGIN IMMEDIATE").ok());
      EXPECT_TRUE(absl::IsUnavailable(co_await siem.Save("2\n")));
      EXPECT_TRUE(other->Execute("ROLLBACK").ok());
    }
    EXPECT_TRUE((co_await siem.Save("3\n")).ok());
    EXPECT_EQ(*co_await siem.Load(), "3\n");
  });
}

TEST(StoredPosition, ThoseOfVersion01AreTakenOver) {
  const TempDir dir;
  std::filesystem::create_directory(dir / "sinks");
  std::ofstream(dir / "sinks/siem.cursor") << "105\n";
  std::ofstream(dir / "sinks/archive.v2.cursor") << "7\n";
  tests::RunOnLoop([&](TestLoop& loop) -> net::Task<void> {
    const auto store = *store::OpenSqliteStore(loop, {.file = {.path = dir / "state.db"}});
    for (int start = 0; start < 2; ++start) {
      store::Import import = SinkPositionsOfVersion01(dir.path());
      const absl::Status imported = co_await store::RunImport(*store, dir.path(), std::move(import));
      EXPECT_TRUE(imported.ok()) << imported;
    }
    StoredPosition siem(*store, ReaderOfSink("siem"));
    EXPECT_EQ(*co_await siem.Load(), "105\n");
    StoredPosition archive(*store, ReaderOfSink("archive.v2"));
    EXPECT_EQ(*co_await archive.Load(), "7\n");
    EXPECT_TRUE(std::filesystem::exists(dir / "sinks/siem.cursor.imported-0.1"));
    EXPECT_FALSE(std::filesystem::exists(dir / "sinks/siem.cursor"));
  });
}

}  // namespace
}  // namespace gateway
