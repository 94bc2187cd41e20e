#include "gateway/shard/text_buffers.h"

#include <gtest/gtest.h>

namespace gateway {
namespace {

TEST(TextBuffers, AGivenStringComesBackEmptyWithItsMemory) {
  TextBuffers buffers;
  std::string text = buffers.Take();
  text.assign(1000, 'x');
  const char* const memory = text.data();
  buffers.Give(std::move(text));
  const std::string again = buffers.Take();
  EXPECT_TRUE(again.empty());
  EXPECT_EQ(again.data(), memory);
  EXPECT_LT(buffers.Take().capacity(), 1000u) << "there was only one";
}

TEST(TextBuffers, KeepsNoLargeStringAndNoMoreThanItsBound) {
  TextBuffers buffers;
  buffers.Give(std::string(TextBuffers::kMostBytes + 1, 'x'));
  EXPECT_LT(buffers.Take().capacity(), TextBuffers::kMostBytes);
  for (size_t i = 0; i < TextBuffers::kMost + 1; ++i) buffers.Give(std::string(1000, 'x'));
  size_t kept = 0;
  while (buffers.Take().capacity() >= 1000) ++kept;
  EXPECT_EQ(kept, TextBuffers::kMost);
}

}  // namespace
}  // namespace gateway
