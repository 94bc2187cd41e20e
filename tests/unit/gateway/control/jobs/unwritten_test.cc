#include "gateway/control/jobs/unwritten.h"

#include <gtest/gtest.h>

namespace tests {
namespace {

using gateway::control::TextOf;
using gateway::control::Unwritten;

TEST(Unwritten, KeepsTheLastLineOfEachKeyInTheOrderInWhichTheyCame) {
  Unwritten lines;
  lines.Put("a", "a1\n");
  lines.Put("b", "b1\n");
  lines.Put("a", "a2\n");
  EXPECT_EQ(TextOf(lines.Take()), "b1\na2\n");
  EXPECT_EQ(TextOf(lines.Take()), "");
}

TEST(Unwritten, WhatCouldNotBeWrittenComesBeforeWhatCameSinceAndYieldsToIt) {
  Unwritten lines;
  lines.Put("of a", "submission\n");
  lines.Put("a", "a1\n");
  lines.Put("b", "b1\n");
  for (int i = 0; i < 1000; ++i) {
    auto taken = lines.Take();
    ASSERT_EQ(taken.size(), 3u) << "however often the disk refuses";
    lines.Put("a", "a2\n");
    lines.PutBack(std::move(taken));
  }
  EXPECT_EQ(TextOf(lines.Take()), "submission\nb1\na2\n");
}

TEST(Unwritten, WhatIsDroppedWaitsNoMore) {
  Unwritten lines;
  lines.Put("a", "a1\n");
  EXPECT_TRUE(lines.Drop("a"));
  EXPECT_FALSE(lines.Drop("a"));
  EXPECT_EQ(TextOf(lines.Take()), "");
}

}  // namespace
}  // namespace tests
