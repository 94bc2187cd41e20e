#include "plugins/weights/store.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <thread>

#include "plugins/weights/listing.h"
#include "plugins/weights/order.h"
#include "plugins/weights/progress.h"
#include "plugins/weights/s3_listing.h"
#include "tests/support/temp_dir.h"

namespace plugins::weights {
namespace {

namespace fs = std::filesystem;

const conf::TimePoint kThen = conf::TimePoint(std::chrono::hours(490'000));
const conf::TimePoint kLater = kThen + std::chrono::hours(1);
constexpr uint64_t kMib = uint64_t{1} << 20;

std::string EntryId(char digit) {
  return "sha256-" + std::string(64, digit);
}

class WeightsStoreTest : public ::testing::Test {
 protected:
  void Put(const std::string& id, size_t bytes, conf::TimePoint used = kThen) const {
    ASSERT_TRUE(store_.MakeRoom(id, {.bytes = bytes, .now = kLater}).ok());
    const std::string folder = store_.PartsOf(id) + "/files";
    fs::create_directories(folder);
    std::ofstream(folder + "/w") << std::string(bytes, 'w');
    const StoreRecord record{.model = "chat", .bytes = bytes, .files = 1, .fetched = used};
    const absl::Status published = store_.Publish(id, folder, record, std::string(64, '0') + "  w\n");
    ASSERT_TRUE(published.ok()) << published;
  }
  bool Has(const std::string& id) const { return fs::exists(store_.FolderOf(id)); }

  tests::TempDir folder_;
  const Store store_ = *Store::Open(folder_ / "store/");
};

TEST_F(WeightsStoreTest, LookingIntoAFolderMakesNoStoreOfIt) {
  for (const std::string& folder : {folder_ / "no-store", folder_.path()}) {
    const auto none = Store::OpenExisting(folder);
    EXPECT_EQ(none.status().code(), absl::StatusCode::kFailedPrecondition) << folder;
    EXPECT_NE(std::string(none.status().message()).find("is no store of weights"), std::string::npos);
  }
  EXPECT_FALSE(fs::exists(folder_ / "no-store"));
  EXPECT_FALSE(fs::exists(folder_ / ".tidegate"));
  EXPECT_TRUE(Store::OpenExisting(folder_ / "store").ok());
}

TEST_F(WeightsStoreTest, TheLeastUsedMakesRoomAndWhatIsHeldStays) {
  Put(EntryId('1'), kMib, kThen);
  Put(EntryId('2'), kMib, kThen + std::chrono::minutes(1));
  Put(EntryId('3'), kMib, kThen + std::chrono::minutes(2));
  auto held = store_.Hold(EntryId('1'), kThen);
  ASSERT_TRUE(held.ok() && held->has_value());
  const auto left = store_.MakeRoom(EntryId('4'), {.bytes = kMib, .limit = 3 * kMib, .now = kLater});
  ASSERT_TRUE(left.ok()) << left.status();
  EXPECT_EQ(*left, std::vector<std::string>{EntryId('2')});
  EXPECT_TRUE(Has(EntryId('1')));
  EXPECT_FALSE(Has(EntryId('2')));
  const auto full = store_.MakeRoom(EntryId('4'), {.bytes = 3 * kMib, .limit = 3 * kMib, .now = kLater});
  EXPECT_TRUE(absl::IsResourceExhausted(full.status()));
  EXPECT_TRUE(Has(EntryId('3')));
  held->reset();
  EXPECT_TRUE(store_.MakeRoom(EntryId('4'), {.bytes = 3 * kMib, .limit = 3 * kMib, .now = kLater}).ok());
  EXPECT_FALSE(Has(EntryId('1')));
}

TEST_F(WeightsStoreTest, PinnedByAPersonOrByAPolicyStays) {
  Put(EntryId('1'), kMib);
  Put(EntryId('2'), kMib);
  ASSERT_TRUE(store_.SetPinned(EntryId('1'), true).ok());
  const Store::Need need{.bytes = kMib, .limit = 2 * kMib, .pinned = {EntryId('2')}, .now = kLater};
  EXPECT_TRUE(absl::IsResourceExhausted(store_.MakeRoom(EntryId('3'), need).status()));
  ASSERT_TRUE(store_.SetPinned(EntryId('1'), false).ok());
  EXPECT_TRUE(store_.MakeRoom(EntryId('3'), need).ok());
  EXPECT_FALSE(Has(EntryId('1')));
  EXPECT_TRUE(absl::IsNotFound(store_.SetPinned(EntryId('1'), true)));
}

TEST_F(WeightsStoreTest, AFetchUnderWayCountsAsMuchAsItWillTake) {
  const auto right = store_.TryFetch(EntryId('1'));
  ASSERT_TRUE(right.ok() && right->has_value());
  ASSERT_TRUE(store_.MakeRoom(EntryId('1'), {.bytes = 2 * kMib, .limit = 3 * kMib, .now = kLater}).ok());
  const auto other = store_.TryFetch(EntryId('1'));
  ASSERT_TRUE(other.ok());
  EXPECT_FALSE(other->has_value());
  const auto full = store_.MakeRoom(EntryId('2'), {.bytes = 2 * kMib, .limit = 3 * kMib, .now = kLater});
  EXPECT_TRUE(absl::IsResourceExhausted(full.status())) << full.status();
  const auto list = store_.List();
  ASSERT_TRUE(list.ok());
  ASSERT_EQ(list->size(), 1U);
  EXPECT_TRUE(list->front().entry.held);
  EXPECT_FALSE(list->front().entry.complete);
  EXPECT_EQ(list->front().entry.bytes, 2 * kMib);
}

TEST_F(WeightsStoreTest, WhatAKilledRemovalLeftIsRemovedWithTheRest) {
  Put(EntryId('1'), kMib);
  const std::string gone = store_.PartsOf(EntryId('9') + ".removed");
  fs::create_directories(gone);
  std::ofstream(gone + "/w") << std::string(2 * kMib, 'x');
  fs::last_write_time(gone, fs::file_time_type::clock::now() - std::chrono::hours(1));
  const auto left = store_.MakeRoom(
      EntryId('2'),
      {.bytes = kMib, .limit = 3 * kMib, .now = conf::TimePoint(std::chrono::system_clock::now())});
  ASSERT_TRUE(left.ok()) << left.status();
  EXPECT_FALSE(fs::exists(gone));
  EXPECT_TRUE(Has(EntryId('1')));
}

TEST_F(WeightsStoreTest, WhatIsInUseIsNotRemovedByAPersonEither) {
  Put(EntryId('1'), kMib);
  {
    const auto held = store_.Hold(EntryId('1'), kThen);
    ASSERT_TRUE(held.ok() && held->has_value());
    EXPECT_TRUE(absl::IsFailedPrecondition(store_.Remove(EntryId('1'))));
  }
  EXPECT_TRUE(store_.Remove(EntryId('1')).ok());
  EXPECT_TRUE(absl::IsNotFound(store_.Remove(EntryId('1'))));
  EXPECT_TRUE(absl::IsNotFound(store_.Remove("../../etc")));
}

TEST_F(WeightsStoreTest, CompileCachesAreEntriesLikeWeights) {
  {
    const auto cache = store_.HoldCache("cache-vllm-1", kThen);
    ASSERT_TRUE(cache.ok()) << cache.status();
    std::ofstream(cache->folder + "/kernel") << std::string(kMib, 'k');
  }
  const auto left = store_.MakeRoom(EntryId('1'), {.bytes = 2 * kMib, .limit = 2 * kMib, .now = kLater});
  ASSERT_TRUE(left.ok()) << left.status();
  EXPECT_EQ(*left, std::vector<std::string>{"cache-vllm-1"});
}

// Many hold, many make room: nobody ever loses what it holds.
TEST_F(WeightsStoreTest, HoldersNeverLoseWhatTheyHold) {
  std::atomic<bool> stop = false;
  std::atomic<int> lost = 0;
  std::atomic<int> held_times = 0;
  std::atomic<int> evictions = 0;
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 3; ++i) {
      threads.emplace_back([&, i] {
        while (!stop) {
          const std::string id = EntryId(static_cast<char>('1' + i));
          const auto held = store_.Hold(id, kThen);
          if (!held.ok() || !held->has_value()) {
            std::this_thread::yield();
            continue;
          }
          ++held_times;
          for (int looks = 0; looks < 20; ++looks) lost += fs::exists((*held)->folder + "/w") ? 0 : 1;
        }
      });
    }
    // On a busy machine the holders may hold everything for a while.
    constexpr int kRounds = 150;
    constexpr int kMostRounds = 100'000;
    for (int round = 0; round < kRounds || (evictions == 0 && round < kMostRounds); ++round) {
      const std::string id = EntryId(static_cast<char>('1' + round % 3));
      if (!Has(id)) Put(id, 1000);
      const auto left = store_.MakeRoom(EntryId('9'), {.bytes = 1000, .limit = 3000, .now = kLater});
      if (left.ok()) evictions += static_cast<int>(left->size());
      store_.RemoveParts(EntryId('9')).IgnoreError();
    }
    stop = true;
  }
  EXPECT_EQ(lost, 0);
  EXPECT_GT(held_times, 0);
  EXPECT_GT(evictions, 0);
}

// What servers, logs and variables hold may be anything.
TEST(WeightsInput, OfAnyBytesIsReadOrRefused) {
  uint32_t seed = 1;
  const auto next = [&seed] { return seed = seed * 1664525 + 1013904223; };
  const std::vector<std::string> seeds = {
      std::string(64, 'a') + "  a/b\n" + std::string(64, 'b') + " *c\n",
      "<ListBucketResult><IsTruncated>true</IsTruncated><Contents><Key>a%20b</Key><Size>1</Size></Contents>"
      "<NextContinuationToken>t</NextContinuationToken></ListBucketResult>",
      ProgressLine({.phase = FetchPhase::kFetched, .bytes = 1, .of = 2, .holds = {"ab"}}),
      WriteOrder({.store = "/s", .digest = "sha256:" + std::string(64, 'c'), .source = PathSource{"/m"}})};
  for (int round = 0; round < 20'000; ++round) {
    std::string text = seeds[next() % seeds.size()];
    for (uint32_t changes = next() % 6; changes > 0 && !text.empty(); --changes) {
      const size_t at = next() % text.size();
      switch (next() % 3) {
        case 0:
          text[at] = static_cast<char>(next() >> 24);
          break;
        case 1:
          text.erase(at, next() % 9);
          break;
        default:
          text.insert(at, text.substr(next() % text.size(), next() % 9));
      }
    }
    if (const auto files = ReadListing(text, "f"); files.ok()) {
      for (const ListedFile& file : *files) ASSERT_EQ(PathDefect(file.path), "");
    }
    (void)ReadS3Page(text);
    (void)LastProgress(text);
    (void)ReadOrder(text);
  }
}

}  // namespace
}  // namespace plugins::weights
