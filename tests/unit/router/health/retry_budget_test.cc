#include "router/health/retry_budget.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace router {
namespace {

using namespace std::chrono_literals;

constexpr conf::TimePoint kOpened{1'000'000s};

int Spend(RetryBudget& budget, conf::TimePoint now) {
  int spent = 0;
  while (budget.Withdraw(now)) ++spent;
  return spent;
}

TEST(RetryBudget, AllowsItsShareOfRequests) {
  RetryBudget budget({.share = 0.2, .min_per_minute = 0, .max_saved = 1000});
  EXPECT_EQ(Spend(budget, kOpened), 0);
  for (int i = 0; i < 1000; ++i) budget.OnRequest();
  EXPECT_EQ(Spend(budget, kOpened), 200);
}

TEST(RetryBudget, SavesUpNoMoreThanItsCap) {
  RetryBudget budget({.share = 0.2, .min_per_minute = 0, .max_saved = 50});
  for (int i = 0; i < 10'000; ++i) budget.OnRequest();
  EXPECT_EQ(Spend(budget, kOpened), 50);
}

TEST(RetryBudget, LetsAQuietModelRetry) {
  RetryBudget budget({.share = 0.2, .min_per_minute = 10, .max_saved = 0});
  EXPECT_EQ(Spend(budget, kOpened), 10);
  EXPECT_EQ(Spend(budget, kOpened + 30s), 5);
  EXPECT_EQ(Spend(budget, kOpened + 31s), 0);
  EXPECT_EQ(Spend(budget, kOpened + 10h), 10);
}

TEST(RetryBudget, ARefundedRetryIsAvailableAgain) {
  RetryBudget budget({.share = 0, .min_per_minute = 1, .max_saved = 1});
  EXPECT_TRUE(budget.Withdraw(kOpened));
  EXPECT_FALSE(budget.Withdraw(kOpened));
  budget.Refund();
  EXPECT_TRUE(budget.Withdraw(kOpened));
}

TEST(RetryBudget, IsExactBetweenShards) {
  RetryBudget budget({.share = 0.2, .min_per_minute = 0, .max_saved = 1'000'000});
  std::atomic<int> spent{0};
  std::vector<std::thread> shards;
  for (int i = 0; i < 4; ++i) {
    shards.emplace_back([&] {
      for (int n = 0; n < 5'000; ++n) {
        budget.OnRequest();
        if (budget.Withdraw(kOpened)) ++spent;
      }
    });
  }
  for (std::thread& shard : shards) shard.join();
  EXPECT_EQ(spent + Spend(budget, kOpened), 4'000);
}

}  // namespace
}  // namespace router
