#include "router/routes/sessions.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "scheduler/rng.h"

namespace router {
namespace {

using namespace std::chrono_literals;

constexpr conf::TimePoint kStart{1'000'000s};

TEST(Sessions, AreRememberedUntilTheirTimeHasPassed) {
  Sessions sessions;
  EXPECT_EQ(sessions.Find(7, kStart, 10s), std::nullopt);
  sessions.Remember(7, 70, kStart);
  EXPECT_EQ(sessions.Find(7, kStart + 10s, 10s), 70u);
  EXPECT_EQ(sessions.Find(7, kStart + 11s, 10s), std::nullopt);
  EXPECT_EQ(sessions.Find(8, kStart, 10s), std::nullopt);
  sessions.Remember(7, 71, kStart + 9s);
  EXPECT_EQ(sessions.Find(7, kStart + 18s, 10s), 71u) << "each use begins it anew";
}

TEST(Sessions, ASessionWithHashZeroWorks) {
  Sessions sessions;
  EXPECT_EQ(sessions.Find(0, kStart, 10s), std::nullopt);
  sessions.Remember(0, 5, kStart);
  EXPECT_EQ(sessions.Find(0, kStart, 10s), 5u);
}

TEST(Sessions, MemoryIsBoundedAndTheLatestAreKept) {
  constexpr size_t kCapacity = 4096;
  Sessions sessions(kCapacity);
  EXPECT_EQ(sessions.bytes(), 0u) << "nothing is taken before somebody comes";
  scheduler::Rng rng(1);
  std::vector<uint64_t> all(100'000);
  for (size_t i = 0; i < all.size(); ++i) {
    all[i] = rng.Next();
    sessions.Remember(all[i], i, kStart + std::chrono::milliseconds(i));
  }
  EXPECT_LE(sessions.bytes(), kCapacity * 24);
  size_t kept = 0;
  for (size_t i = all.size() - kCapacity / 4; i < all.size(); ++i) {
    kept += sessions.Find(all[i], kStart + 100s, 1h) == i;
  }
  EXPECT_GT(kept, kCapacity / 4 * 95 / 100);
}

TEST(Sessions, ThreadsMayShareThem) {
  Sessions sessions(4096);
  std::vector<std::thread> threads;
  for (uint64_t t = 0; t < 4; ++t) {
    threads.emplace_back([&sessions, t] {
      for (uint64_t i = 0; i < 20'000; ++i) {
        const uint64_t session = (i % 500) * 0x9e3779b97f4a7c15;
        sessions.Remember(session, session + 1, kStart + std::chrono::microseconds(i + t));
        const auto found = sessions.Find(session, kStart + 1s, 1h);
        if (found) EXPECT_EQ(*found, session + 1);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace router
