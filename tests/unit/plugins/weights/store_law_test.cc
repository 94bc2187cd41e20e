#include "plugins/weights/store_law.h"

#include <gtest/gtest.h>

namespace plugins::weights {
namespace {

constexpr uint64_t kGib = uint64_t{1} << 30;

conf::TimePoint Hours(int hours) {
  return conf::TimePoint(std::chrono::hours(1000 + hours));
}

RoomNeed Need(uint64_t gib, uint64_t limit, uint64_t free = 1000) {
  return {.bytes = gib * kGib, .limit = limit * kGib, .free = free * kGib, .now = Hours(100)};
}

std::vector<StoreEntry> Three() {
  return {{.id = "b", .bytes = 10 * kGib, .used = Hours(2)},
          {.id = "a", .bytes = 20 * kGib, .used = Hours(1)},
          {.id = "c", .bytes = 30 * kGib, .used = Hours(3)}};
}

TEST(StoreLaw, NothingLeavesWhileThereIsRoom) {
  const Eviction plan = PlanEviction(Three(), Need(40, 100));
  EXPECT_TRUE(plan.why.empty());
  EXPECT_TRUE(plan.ids.empty());
}

TEST(StoreLaw, LeastUsedLeavesFirstAndNoMoreThanNeeded) {
  EXPECT_EQ(PlanEviction(Three(), Need(50, 100)).ids, (std::vector<std::string>{"a"}));
  EXPECT_EQ(PlanEviction(Three(), Need(65, 100)).ids, (std::vector<std::string>{"a", "b"}));
}

TEST(StoreLaw, TheDiskCountsLikeTheLimit) {
  EXPECT_EQ(PlanEviction(Three(), Need(15, 0, 10)).ids, (std::vector<std::string>{"a"}));
  const Eviction plan = PlanEviction(Three(), Need(100, 0, 10));
  EXPECT_NE(plan.why.find("100.0 GiB are needed, and the store's disk has 10.0 GiB free; 60.0 GiB could"),
            std::string::npos)
      << plan.why;
}

TEST(StoreLaw, PinnedHeldAndJustUsedStay) {
  std::vector<StoreEntry> entries = Three();
  entries[0].pinned = true;
  entries[1].held = true;
  EXPECT_EQ(PlanEviction(entries, Need(45, 100)).ids, (std::vector<std::string>{"c"}));
  entries[2].used = Hours(100) - std::chrono::seconds(90);
  const Eviction plan = PlanEviction(entries, Need(45, 100));
  EXPECT_TRUE(plan.ids.empty());
  EXPECT_NE(plan.why.find("may hold 100.0 GiB, of which 60.0 GiB are in use"), std::string::npos) << plan.why;
}

TEST(StoreLaw, IncompleteWeightsAreRemovedBeforeCompleteOnes) {
  std::vector<StoreEntry> entries = Three();
  entries[2].complete = false;
  EXPECT_EQ(PlanEviction(entries, Need(45, 100)).ids, (std::vector<std::string>{"c"}));
}

TEST(StoreLaw, WithoutRoomNothingLeaves) {
  const Eviction plan = PlanEviction(Three(), Need(101, 100));
  EXPECT_FALSE(plan.why.empty());
  EXPECT_TRUE(plan.ids.empty());
}

TEST(StoreLaw, BytesAreShownInTheirUnit) {
  EXPECT_EQ(InBytes(1023), "1023 B");
  EXPECT_EQ(InBytes(1536), "1.5 KiB");
  EXPECT_EQ(InBytes(3 * kGib), "3.0 GiB");
}

}  // namespace
}  // namespace plugins::weights
