#include "scheduler/engine/adapters.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

namespace scheduler::engine {
namespace {

using Adapters = std::vector<uint32_t>;

TEST(AdapterCache, EvictsTheLeastRecentlyUsed) {
  AdapterCache cache(2);
  const std::pair<uint32_t, bool> uses[] = {{1, true}, {2, true}, {1, false}};
  for (const auto& [adapter, loads] : uses) {
    EXPECT_EQ(cache.Acquire(adapter), loads);
    cache.Release(adapter);
  }
  EXPECT_TRUE(cache.Acquire(3));
  cache.Release(3);
  EXPECT_EQ(cache.Loaded(), (Adapters{1, 3}));
  EXPECT_EQ(cache.loads(), 3u);
  EXPECT_EQ(cache.evictions(), 1u);
}

TEST(AdapterCache, KeepsAdaptersInUse) {
  AdapterCache cache(2);
  cache.Acquire(1);
  cache.Acquire(2);
  EXPECT_FALSE(cache.HasSlotFor(3));
  EXPECT_TRUE(cache.HasSlotFor(1));
  cache.Release(2);
  EXPECT_TRUE(cache.HasSlotFor(3));
  EXPECT_TRUE(cache.Acquire(3));
  EXPECT_EQ(cache.InUse(), (Adapters{1, 3}));
}

TEST(AdapterCache, KeepsAllWithoutABound) {
  AdapterCache cache(0);
  for (uint32_t adapter = 1; adapter <= 100; ++adapter) EXPECT_TRUE(cache.Acquire(adapter));
  EXPECT_EQ(cache.Loaded().size(), 100u);
  EXPECT_EQ(cache.evictions(), 0u);
}

}  // namespace
}  // namespace scheduler::engine
