#include "gateway/process/memory_return.h"

#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "tests/support/loop_test.h"
#include "tests/support/sanitized.h"

namespace gateway {
namespace {

constexpr size_t kBlock = 16 << 10;
constexpr size_t kBlocks = 4000;

size_t ResidentKib() {
  std::ifstream status("/proc/self/status");
  size_t kib = 0;
  for (std::string word; status >> word && word != "RssAnon:";) {
  }
  status >> kib;
  return kib;
}

// Frees many blocks below one that stays, so that the allocator keeps them.
std::unique_ptr<char[]> LeaveFreedMemory() {
  std::vector<std::unique_ptr<char[]>> blocks;
  for (size_t i = 0; i < kBlocks; ++i) {
    blocks.push_back(std::make_unique<char[]>(kBlock));
    std::memset(blocks.back().get(), 1, kBlock);
  }
  return std::move(blocks.back());
}

size_t FreedKibAfter(size_t connections) {
  const std::unique_ptr<char[]> last = LeaveFreedMemory();
  const size_t before = ResidentKib();
  tests::TestLoop loop([](const std::exception_ptr&) { ADD_FAILURE() << "a task threw"; });
  MemoryReturn memory(loop);
  for (size_t i = 0; i < connections; ++i) memory.Opened();
  for (size_t i = 0; i < connections; ++i) memory.Closed();
  loop.Drain();
  const size_t after = ResidentKib();
  return before > after ? before - after : 0;
}

TEST(MemoryReturn, FreedMemoryLeavesTheProcessAfterACrowd) {
  if (tests::kSanitized) GTEST_SKIP() << "the sanitizer's allocator";
  EXPECT_LT(FreedKibAfter(16), kBlocks * kBlock / 1024 / 4) << "no crowd";
  EXPECT_GT(FreedKibAfter(1000), kBlocks * kBlock / 1024 / 2);
}

}  // namespace
}  // namespace gateway
