#include "gateway/batches/result_part.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace gateway::batches {
namespace {

// The parts of a file that grows by that many bytes at a time; the sum of what was uploaded.
uint64_t Grow(ResultParts& parts, uint64_t by, int times) {
  uint64_t uploaded = 0;
  for (int i = 0; i < times; ++i) {
    FileExtent end = ExtentOf(parts);
    end.bytes += by / 2;
    end.stored += by;
    const NextPart next = PlanNextPart(parts, end);
    parts.resize(next.kept);
    parts.push_back(
        {.object = fmt::format("o{}", i),
         .extent = {.bytes = end.bytes - next.from.bytes, .stored = end.stored - next.from.stored}});
    uploaded += parts.back().extent.stored;
    EXPECT_EQ(ExtentOf(parts), end);
  }
  return uploaded;
}

TEST(ResultParts, AFileHasFewPartsAndEachByteIsUploadedAFewTimes) {
  ResultParts parts;
  const uint64_t uploaded = Grow(parts, 1000, 10'000);
  EXPECT_EQ(ExtentOf(parts), (FileExtent{.bytes = 5'000'000, .stored = 10'000'000}));
  EXPECT_LE(parts.size(), 14u);
  EXPECT_LE(uploaded, 24u * 10'000'000u);
}

TEST(ResultParts, NoPartGrowsAboveItsBound) {
  ResultParts parts;
  const uint64_t uploaded = Grow(parts, 8u << 20, 400);
  for (const ResultPart& part : parts) EXPECT_LE(part.extent.stored, kMostPartBytes);
  EXPECT_LE(parts.size(), 40u);
  EXPECT_LE(uploaded, uint64_t{10} * 400 * (8u << 20));
}

TEST(ResultParts, TheFirstOneBeginsWithTheFile) {
  const NextPart next = PlanNextPart({}, {.bytes = 1, .stored = 37});
  EXPECT_EQ(next.kept, 0u);
  EXPECT_EQ(next.from, FileExtent());
}

}  // namespace
}  // namespace gateway::batches
