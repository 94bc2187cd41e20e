#include "scheduler/engine/kv_cache.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace scheduler::engine {
namespace {

using Hashes = std::vector<uint64_t>;

void Fill(KvCache& kv, const Hashes& hashes) {
  KvBlocks holding;
  ASSERT_TRUE(kv.Reserve(static_cast<uint32_t>(hashes.size()), holding));
  kv.Publish(hashes, holding);
  kv.Release(holding);
}

TEST(KvCache, CountsAndReleasesBlocksOfSequences) {
  KvCache kv(8, true);
  KvBlocks holding;
  ASSERT_TRUE(kv.Reserve(5, holding));
  EXPECT_EQ(kv.used(), 5u);
  EXPECT_FALSE(kv.Reserve(4, holding));
  EXPECT_EQ(holding.Blocks(), 5u);
  kv.Release(holding);
  EXPECT_EQ(kv.used(), 0u);
  EXPECT_EQ(kv.available(), 8u);
}

TEST(KvCache, RecordsStoredAndEvictedBlocks) {
  KvCache kv(4, true);
  std::vector<KvChange> changes;
  kv.RecordTo(&changes);
  Fill(kv, {1, 2, 3});
  Fill(kv, {1, 4});  // 1 is there already; 3 and 2 are the oldest but for it
  Fill(kv, {5, 6, 7, 8});
  std::vector<uint64_t> there;
  for (const auto& [hash, stored] : changes) {
    if (stored) {
      there.push_back(hash);
    } else {
      EXPECT_EQ(std::erase(there, hash), 1u) << hash;
    }
    EXPECT_EQ(std::count(there.begin(), there.end(), hash), stored);
  }
  EXPECT_EQ(there, (Hashes{5, 6, 7, 8}));
  EXPECT_EQ(kv.cached(), there.size());
}

TEST(KvCache, MatchesOnlyAPrefixWithoutAGap) {
  KvCache kv(8, true);
  Fill(kv, {1, 2, 3});
  EXPECT_EQ(kv.Match(Hashes{1, 2, 3, 4}), 3u);
  EXPECT_EQ(kv.Match(Hashes{1, 9, 3}), 1u);
  EXPECT_EQ(kv.Match(Hashes{2, 3}), 2u);  // hashes are chained by the caller; the cache sees keys
  EXPECT_EQ(kv.Match(Hashes{9}), 0u);
}

TEST(KvCache, UnpinnedCachedBlocksAreAvailable) {
  KvCache kv(4, true);
  Fill(kv, {1, 2, 3});
  EXPECT_EQ(kv.used(), 0u);
  EXPECT_EQ(kv.cached(), 3u);
  KvBlocks holding;
  EXPECT_TRUE(kv.Reserve(4, holding));
  EXPECT_EQ(kv.cached(), 0u);
}

TEST(KvCache, EvictsTheEndOfTheLeastRecentlyUsedPrefixFirst) {
  KvCache kv(6, true);
  Fill(kv, {1, 2, 3});
  Fill(kv, {11, 12, 13});
  KvBlocks holding;
  ASSERT_TRUE(kv.Admit(Hashes{1, 2, 3}, 0, holding));  // used again: now the younger one
  kv.Release(holding);
  ASSERT_TRUE(kv.Reserve(2, holding));
  EXPECT_EQ(kv.Match(Hashes{1, 2, 3}), 3u);
  EXPECT_EQ(kv.Match(Hashes{11, 12, 13}), 1u);
}

TEST(KvCache, NeverEvictsBlocksOfASequence) {
  KvCache kv(4, true);
  Fill(kv, {1, 2});
  KvBlocks first;
  ASSERT_TRUE(kv.Admit(Hashes{1, 2}, 1, first));
  KvBlocks second;
  EXPECT_FALSE(kv.Reserve(2, second));
  EXPECT_TRUE(kv.Reserve(1, second));
  EXPECT_EQ(kv.Match(Hashes{1, 2}), 2u);
}

TEST(KvCache, AnAdmissionThatDoesNotFitLeavesNothingHeld) {
  KvCache kv(4, true);
  Fill(kv, {1, 2});
  KvBlocks other;
  ASSERT_TRUE(kv.Reserve(2, other));
  KvBlocks holding;
  EXPECT_FALSE(kv.Admit(Hashes{1, 2}, 1, holding));
  EXPECT_EQ(holding.Blocks(), 0u);
  EXPECT_EQ(kv.used(), 2u);
  EXPECT_EQ(kv.Match(Hashes{1, 2}), 2u);
}

TEST(KvCache, TwoSequencesThatComputeTheSamePrefixShareItInTheEnd) {
  KvCache kv(8, true);
  KvBlocks first;
  KvBlocks second;
  ASSERT_TRUE(kv.Reserve(3, first));
  ASSERT_TRUE(kv.Reserve(3, second));
  kv.Publish(Hashes{1, 2}, first);
  kv.Publish(Hashes{1, 2}, second);
  EXPECT_EQ(kv.used(), 4u);  // two shared, one plain each
  kv.Release(first);
  EXPECT_EQ(kv.used(), 3u);
  kv.Release(second);
  EXPECT_EQ(kv.used(), 0u);
}

TEST(KvCache, KeepsNothingWhenPrefixCachingIsOff) {
  KvCache kv(8, false);
  Fill(kv, {1, 2});
  EXPECT_EQ(kv.Match(Hashes{1, 2}), 0u);
  EXPECT_EQ(kv.cached(), 0u);
}

}  // namespace
}  // namespace scheduler::engine
