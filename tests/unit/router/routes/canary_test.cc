#include "router/routes/canary.h"

#include <gtest/gtest.h>

#include <array>
#include <map>
#include <vector>

namespace router {
namespace {

constexpr TrackId kA{1};
constexpr TrackId kB{2};

TEST(Canary, EachTrackGetsItsShare) {
  const std::vector<Canary> canaries = {{kA, 5}, {kB, 20}};
  std::map<TrackId, int> got;
  for (uint64_t key = 0; key < 100'000; ++key) ++got[TrackFor(canaries, key)];
  EXPECT_NEAR(got[kA], 5'000, 300);
  EXPECT_NEAR(got[kB], 20'000, 600);
  EXPECT_NEAR(got[kStable], 75'000, 800);
}

TEST(Canary, ASessionOnACanaryStaysWhenTheShareGrows) {
  uint64_t moved = 0;
  for (uint64_t key = 0; key < 10'000; ++key) {
    TrackId before = kStable;
    for (const double percent : {0.0, 1.0, 10.0, 50.0, 100.0}) {
      const std::array canaries = {Canary{kA, percent}};
      const TrackId now = TrackFor(canaries, key);
      EXPECT_FALSE(before == kA && now == kStable);
      moved += before != now;
      before = now;
    }
    EXPECT_EQ(before, kA) << "100 percent is everybody";
  }
  EXPECT_EQ(moved, 10'000u);
}

TEST(Canary, WithoutACanaryAllRequestsAreStable) {
  EXPECT_EQ(TrackFor({}, 42), kStable);
}

}  // namespace
}  // namespace router
