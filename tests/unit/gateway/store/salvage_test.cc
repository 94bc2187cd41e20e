// What is read of a store file that is damaged.
#include "gateway/store/salvage.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string_view>
#include <vector>

#include "gateway/store/sqlite_file.h"
#include "tests/support/temp_dir.h"

namespace {

using gateway::store::Object;
using gateway::store::Salvage;
using gateway::store::SqliteFile;
using gateway::store::Write;
using tests::TempDir;

constexpr size_t kObjects = 400;
constexpr size_t kPage = 4096;

void Fill(const std::string& path) {
  const auto file = SqliteFile::Open({.path = path});
  ASSERT_TRUE(file.ok()) << file.status();
  std::vector<Write> writes;
  for (size_t i = 0; i < kObjects; ++i)
    writes.push_back(Write::Create("key", fmt::format("{:04}", i), std::string(200, 'x')));
  ASSERT_TRUE((*file)->Commit(writes).ok());
  const auto first = (*file)->Get("key", "0000");
  ASSERT_TRUE((*file)->Commit({Write::Replace(**first, "changed")}).ok());
  const auto second = (*file)->Get("key", "0001");
  ASSERT_TRUE((*file)->Commit({Write::Remove(**second)}).ok());
}

// The pages with rows; the file keeps many free ones, too.
std::vector<size_t> PagesInUse(const std::string& path) {
  const std::string text = tests::ReadFile(path);
  std::vector<size_t> pages;
  for (size_t page = 1; page < text.size() / kPage; ++page) {
    const std::string_view bytes = std::string_view(text).substr(page * kPage, kPage);
    if (std::ranges::count(bytes, '\0') < static_cast<ptrdiff_t>(kPage / 2)) pages.push_back(page);
  }
  return pages;
}

void OverwritePage(const std::string& path, size_t page) {
  std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
  file.seekp(static_cast<std::streamoff>(page * kPage));
  for (size_t i = 0; i < kPage; ++i) file.put(static_cast<char>(i * 7 + 1));
}

TEST(Salvage, ReadsTheLastStateOfEachObjectOfASoundFile) {
  const TempDir dir;
  Fill(dir / "state.db");
  const auto salvaged = Salvage(dir / "state.db");
  ASSERT_TRUE(salvaged.ok()) << salvaged.status();
  EXPECT_TRUE(salvaged->complete);
  EXPECT_EQ(salvaged->objects.size(), kObjects - 1);
  EXPECT_EQ(salvaged->last, kObjects + 2);
  EXPECT_EQ(salvaged->objects.back(), (Object{"key", "0000", kObjects + 1, "changed"}));
}

TEST(Salvage, LeavesOutWhatStandsOnPagesThatAreOverwrittenAndLeavesTheFileAlone) {
  const TempDir dir;
  Fill(dir / "state.db");
  const std::vector<size_t> pages = PagesInUse(dir / "state.db");
  ASSERT_GT(pages.size(), 10u);
  size_t damaged = 0;
  for (const size_t page : pages) {
    std::filesystem::copy_file(dir / "state.db", dir / "copy.db",
                               std::filesystem::copy_options::overwrite_existing);
    OverwritePage(dir / "copy.db", page);
    const std::string before = tests::ReadFile(dir / "copy.db");
    const auto salvaged = Salvage(dir / "copy.db");
    ASSERT_TRUE(salvaged.ok()) << salvaged.status();
    EXPECT_EQ(tests::ReadFile(dir / "copy.db"), before);
    EXPECT_FALSE(std::filesystem::exists(dir / "copy.db.salvage"));
    for (const Object& object : salvaged->objects) {
      EXPECT_EQ(object.kind, "key");
      EXPECT_TRUE(object.body == "changed" || object.body == std::string(200, 'x'));
    }
    // A page of rows takes at most its own rows with it.
    if (!salvaged->complete && !salvaged->objects.empty()) {
      ++damaged;
      EXPECT_GT(salvaged->objects.size(), kObjects - 40);
    }
  }
  EXPECT_GT(damaged, 5u);
}

TEST(Salvage, FindsNothingWhereThereIsNoDatabase) {
  const TempDir dir;
  EXPECT_TRUE(Salvage(dir / "state.db")->objects.empty());
  std::ofstream(dir / "state.db") << "";
  EXPECT_TRUE(Salvage(dir / "state.db")->objects.empty());
  std::ofstream(dir / "state.db") << std::string(100'000, 'g');
  const auto salvaged = Salvage(dir / "state.db");
  ASSERT_TRUE(salvaged.ok()) << salvaged.status();
  EXPECT_TRUE(salvaged->objects.empty());
  EXPECT_FALSE(salvaged->complete);
}

}  // namespace
