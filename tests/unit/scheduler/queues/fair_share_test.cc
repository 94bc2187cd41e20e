#include "scheduler/queues/fair_share.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "scheduler/rng.h"

namespace scheduler {
namespace {

struct Case {
  const char* what;
  int64_t total;
  std::vector<FairShareClaim> claims;
  std::vector<int64_t> shares;
};

const Case kCases[] = {
    {"what all want fits", 10, {{.deserved = 4, .wanted = 3}, {.deserved = 2, .wanted = 5}}, {3, 5}},
    {"the rest goes by weight", 12, {{.wanted = 20, .weight = 3}, {.wanted = 20, .weight = 1}}, {9, 3}},
    {"more is deserved than there is",
     6,
     {{.deserved = 8, .wanted = 8}, {.deserved = 4, .wanted = 9}},
     {4, 2}},
    {"a claim of weight 0 gets only what it deserves",
     10,
     {{.deserved = 2, .wanted = 9, .weight = 0}, {.wanted = 9}},
     {2, 8}},
    {"what a claim does not lend stays free",
     10,
     {{.deserved = 6, .wanted = 1, .kept = 4}, {.wanted = 20}},
     {1, 6}},
    {"past usage above the weight lowers the share",
     8,
     {{.wanted = 20, .usage = 3}, {.wanted = 20, .usage = 1}},
     {2, 6}},
    {"the first claims get what rounding leaves",
     5,
     {{.wanted = 9}, {.wanted = 9}, {.wanted = 9}},
     {2, 2, 1}},
};

TEST(FairShare, DividesByDeservedThenWeightThenUsage) {
  for (const Case& c : kCases) {
    std::vector<FairShareClaim> claims = c.claims;
    DivideFairly(claims, c.total);
    std::vector<int64_t> shares;
    for (const FairShareClaim& claim : claims) shares.push_back(claim.share);
    EXPECT_EQ(shares, c.shares) << c.what;
  }
}

TEST(FairShare, NeverExceedsTheTotalOrAClaimAndLeavesNothingThatIsWanted) {
  Rng rng(1);
  for (int round = 0; round < 2'000; ++round) {
    std::vector<FairShareClaim> claims(1 + rng.Uniform(6));
    int64_t wanted = 0;
    for (FairShareClaim& claim : claims) {
      claim.deserved = static_cast<int64_t>(rng.Uniform(20));
      claim.wanted = static_cast<int64_t>(rng.Uniform(40));
      claim.weight = static_cast<double>(1 + rng.Uniform(4));
      wanted += claim.wanted;
    }
    const auto total = static_cast<int64_t>(rng.Uniform(100));
    DivideFairly(claims, total);
    int64_t given = 0;
    for (const FairShareClaim& claim : claims) {
      ASSERT_GE(claim.share, 0);
      ASSERT_LE(claim.share, claim.wanted);
      given += claim.share;
    }
    ASSERT_EQ(given, std::min(total, wanted)) << "round " << round;
  }
}

}  // namespace
}  // namespace scheduler
