#include "gateway/admin/event_ring.h"

#include <gtest/gtest.h>

namespace gateway::admin {
namespace {

FeedEvent Of(const std::string& data) {
  return {.type = "changed", .data = data};
}

TEST(EventRing, AnIdSaysWhereAFollowerContinues) {
  EventRing ring("a1", 10);
  EXPECT_EQ(ring.last(), 0u);
  EXPECT_EQ(ring.PositionOf(ring.IdOf(0)), 0u);
  ring.Add(Of("1"));
  ring.Add(Of("2"));
  EXPECT_EQ(ring.IdOf(2), "a1-2");
  EXPECT_EQ(ring.PositionOf("a1-1"), 1u);
  EXPECT_EQ(ring.At(2).data, "2");
  EXPECT_TRUE(ring.HasAllAfter(2));
}

TEST(EventRing, TheOldestEventsAreDroppedAndTheirIdsAreGone) {
  EventRing ring("a1", 2);
  for (const char* const data : {"1", "2", "3", "4"}) ring.Add(Of(data));
  EXPECT_EQ(ring.last(), 4u);
  EXPECT_FALSE(ring.PositionOf("a1-1"));
  EXPECT_EQ(ring.PositionOf("a1-2"), 2u);
  EXPECT_EQ(ring.At(3).data, "3");
  EXPECT_EQ(ring.At(4).data, "4");
}

TEST(EventRing, IdsOfAnotherProcessAndOtherTextsAreGone) {
  EventRing ring("a1", 2);
  ring.Add(Of("1"));
  for (const char* const id : {"b2-1", "a1-9", "a1-", "a1", "", "-", "a1-x", "a1--1"})
    EXPECT_FALSE(ring.PositionOf(id)) << id;
}

}  // namespace
}  // namespace gateway::admin
