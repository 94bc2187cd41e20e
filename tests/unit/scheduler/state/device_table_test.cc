#include "scheduler/state/device_table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <vector>

#include "scheduler/rng.h"

namespace scheduler {
namespace {

NodeType Type(std::vector<uint8_t> link, std::vector<uint8_t> numa) {
  NodeType type;
  type.devices = static_cast<uint8_t>(std::max(link.size(), numa.size()));
  type.link_domain = std::move(link);
  type.numa = std::move(numa);
  return type;
}

// Two boards of four, each in a NUMA node of its own.
NodeType TwoBoards() {
  return Type({0, 0, 0, 0, 1, 1, 1, 1}, {0, 0, 0, 0, 1, 1, 1, 1});
}

TEST(DeviceTable, StaysInOneLinkDomainAndLeavesTheLargerOneWhole) {
  const NodeType type = TwoBoards();
  const DeviceTable table(type);
  EXPECT_EQ(table.Nearest(0xff, 4), 0x0fu);
  EXPECT_EQ(table.Nearest(0xfe, 3), 0x0eu) << "the board that has three left, not the one with four";
  EXPECT_EQ(table.Nearest(0xfe, 4), 0xf0u);
  EXPECT_EQ(table.Nearest(0x3c, 1), 0x04u);
  EXPECT_EQ(table.Nearest(0x7c, 1), 0x04u);
  EXPECT_EQ(std::popcount(table.Nearest(0xff, 6) & 0x0f), 4);
}

TEST(DeviceTable, PrefersOneNumaNodeWithinALinkDomainOfAll) {
  const NodeType type = Type({}, {0, 1, 0, 1, 0, 1, 0, 1});
  const DeviceTable table(type);
  EXPECT_EQ(table.Nearest(0xff, 4), 0x55u);
  EXPECT_EQ(table.Nearest(0b00101111, 3), 0b00101010u);
  EXPECT_TRUE(table.Linked(0xff));
}

TEST(DeviceTable, TakesTheLowestWhereAllAreAlike) {
  const NodeType type = Type({}, std::vector<uint8_t>(8, 0));
  EXPECT_EQ(DeviceTable(type).Nearest(0b10110010, 2), 0b00010010u);
}

TEST(DeviceTable, KnowsLinkedDevices) {
  const NodeType type = TwoBoards();
  const DeviceTable table(type);
  EXPECT_TRUE(table.Linked(0xf0));
  EXPECT_FALSE(table.Linked(0x18));
}

uint32_t Farthest(const NodeType& type, uint32_t devices) {
  uint32_t farthest = 0;
  for (size_t a = 0; a < type.devices; ++a) {
    for (size_t b = 0; b < a; ++b) {
      if ((devices >> a & 1) == 0 || (devices >> b & 1) == 0) continue;
      const uint32_t link = type.link_domain[a] != type.link_domain[b];
      const uint32_t numa = type.numa[a] != type.numa[b];
      farthest = std::max(farthest, 2 * link + numa);
    }
  }
  return farthest;
}

TEST(DeviceTable, NoOtherChoiceHasANearerBottleneck) {
  Rng rng(5);
  for (int round = 0; round < 30; ++round) {
    std::vector<uint8_t> link(2 + rng.Uniform(7));
    std::vector<uint8_t> numa(link.size());
    for (uint8_t& l : link) l = static_cast<uint8_t>(rng.Uniform(3));
    for (uint8_t& n : numa) n = static_cast<uint8_t>(rng.Uniform(2));
    const NodeType type = Type(link, numa);
    const DeviceTable table(type);
    for (uint32_t free = 1; free < uint32_t{1} << type.devices; ++free) {
      std::vector<uint32_t> least(type.devices + size_t{1}, UINT32_MAX);
      for (uint32_t set = free; set != 0; set = (set - 1) & free) {
        uint32_t& of = least[static_cast<size_t>(std::popcount(set))];
        of = std::min(of, Farthest(type, set));
      }
      for (int count = 1; count <= std::popcount(free); ++count) {
        const uint32_t taken = table.Nearest(free, count);
        ASSERT_EQ(std::popcount(taken), count);
        ASSERT_EQ(taken & ~free, 0u);
        ASSERT_EQ(Farthest(type, taken), least[static_cast<size_t>(count)]);
      }
    }
  }
}

TEST(DeviceTable, KeepsLinkedDevicesTogetherOnLargeNodesToo) {
  const NodeType type = Type({0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1},
                             {0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3});
  const DeviceTable table(type);
  EXPECT_EQ(table.Nearest(0xffff, 8), 0x00ffu);
  EXPECT_EQ(table.Nearest(0xfff8, 6), 0x3f00u) << "five are left of the first";
  EXPECT_EQ(table.Nearest(0xfff8, 4), 0x00f0u) << "one NUMA node of the smaller";
  EXPECT_EQ(std::popcount(table.Nearest(0xffff, 12) & 0x00ff), 8);
  for (int count = 1; count <= 9; ++count) {
    EXPECT_EQ(std::popcount(table.Nearest(0b1010'0110'0011'1011, count)), count);
  }
}

}  // namespace
}  // namespace scheduler
